// Host names (RFC 1123), and the labels of international ones: their Punycode is decoded and judged by IDNA 2008 (RFC 5891, RFC 5892).

import type { Spend } from "../values/pattern.js";

const LABEL = /^[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/i;
const MAX_NAME = 253;
/** Units for decoding and judging a label. */
const DECODING = 100;

export function isHostname(text: string, spend: Spend): boolean {
  if (text.length > MAX_NAME) return false;
  return text.split(".").every((label) => isLabel(label, spend));
}

function isLabel(label: string, spend: Spend): boolean {
  if (!LABEL.test(label)) return false;
  if (!/^xn--/i.test(label)) return true;
  spend(DECODING);
  const points = decoded(label.slice(4).toLowerCase());
  return points !== undefined && isInternational(points);
}

/** Punycode (RFC 3492), with its constants. */
function decoded(text: string): number[] | undefined {
  const points = [...text.slice(0, Math.max(0, text.lastIndexOf("-")))].map((char) => char.codePointAt(0) ?? 0);
  const digits = text.slice(text.lastIndexOf("-") + 1);
  let [point, bias, at, next] = [128, 72, 0, 0];
  while (next < digits.length) {
    const before = at;
    for (let [weight, step] = [1, 36]; ; step += 36) {
      const digit = next < digits.length ? Number.parseInt(digits[next++] as string, 36) : Number.NaN;
      // Letters are 0 to 25, digits are 26 to 35.
      const value = digit < 10 ? digit + 26 : digit - 10;
      at += value * weight;
      if (!Number.isSafeInteger(at)) return undefined;
      const threshold = Math.min(26, Math.max(1, step - bias));
      if (value < threshold) break;
      weight *= 36 - threshold;
    }
    const count = points.length + 1;
    bias = adapted(at - before, count, before === 0);
    point += Math.floor(at / count);
    if (point > 0x10ffff) return undefined;
    at %= count;
    points.splice(at++, 0, point);
  }
  return points;
}

function adapted(change: number, count: number, isFirst: boolean): number {
  let delta = Math.floor(change / (isFirst ? 700 : 2));
  delta += Math.floor(delta / count);
  let bias = 0;
  for (; delta > 455; bias += 36) delta = Math.floor(delta / 35);
  return bias + Math.floor((36 * delta) / (delta + 38));
}

/** Letters without capitals, marks and digits; the exceptions of RFC 5892; those that the context decides on. */
const ALLOWED =
  /^[\p{Ll}\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{Nd}\u06fd\u06fe\u0f0b\u3007\u00b7\u0375\u05f3\u05f4\u30fb\u200c-]+$/u;
const FORBIDDEN = /[\u0640\u07fa\u302e\u302f\u3031-\u3035\u303b]/u;
const VIRAMA =
  /[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u0e3a\u0eba\u0f84\u1039\u103a\u1714\u1734\u17d2\u1a60\u1b44\u1baa\u1bab\u1bf2\u1bf3\u2d7f\ua806\ua8c4\ua953\ua9c0\uaaf6\uabed]$/u;
/** Letters that join their neighbours: the scripts of nearly all letters whose joining type in Unicode says so. */
const JOINING = "[\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Mandaic}\\p{Script=Nko}\\p{Script=Mongolian}]";
const JOINS_BEFORE = new RegExp(`${JOINING}\\p{Mn}*$`, "u");
const JOINS_AFTER = new RegExp(`^\\p{Mn}*${JOINING}`, "u");

/** What must stand before and after a character. */
const CONTEXT: Readonly<Record<string, (before: string, after: string) => boolean>> = {
  "\u00b7": (before, after) => before.endsWith("l") && after.startsWith("l"),
  "\u0375": (_, after) => /^\p{Script=Greek}/u.test(after),
  "\u05f3": (before) => /\p{Script=Hebrew}$/u.test(before),
  "\u05f4": (before) => /\p{Script=Hebrew}$/u.test(before),
  "\u30fb": (before, after) => /[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]/u.test(before + after),
  "\u200c": (before, after) => VIRAMA.test(before) || (JOINS_BEFORE.test(before) && JOINS_AFTER.test(after)),
  "\u200d": (before) => VIRAMA.test(before),
};

function isInternational(points: readonly number[]): boolean {
  const label = String.fromCodePoint(...points);
  if (
    !ALLOWED.test(label.replaceAll("\u200d", "")) ||
    FORBIDDEN.test(label) ||
    /^\p{M}/u.test(label) ||
    /^-|-$/.test(label)
  )
    return false;
  if (label.slice(2, 4) === "--" || label.normalize("NFC") !== label) return false;
  if (/[\u0660-\u0669]/.test(label) && /[\u06f0-\u06f9]/.test(label)) return false;
  return [...label].every((char, index) => {
    const allows = CONTEXT[char];
    return !allows || allows([...label].slice(0, index).join(""), [...label].slice(index + 1).join(""));
  });
}
