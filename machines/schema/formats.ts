// The formats that a schema may name. Formats assert; a name that is not in a table is an annotation. Each test takes linear time, and instants are
// read by the grammar that everything else reads them by.

import type { Spend } from "../values/pattern.js";
import { readInstant } from "../values/time.js";
import { isHostname } from "./hostname.js";
import { partsOf } from "./uri.js";

/** A date and a time are read as parts of an instant: there is one grammar. */
const DATE = /^\d{4}-\d\d-\d\d$/;
/** RFC 3339, appendix A: a unit does not follow one that is not next to it. */
const DURATION = (() => {
  const time = "(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)";
  const date = "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)";
  return new RegExp(`^P(?:${date}(?:T${time})?|T${time}|\\d+W)$`);
})();
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`);
const LOCAL_PART = /^(?:[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*|"(?:[ !#-[\]-~]|\\[ -~])*")$/;
/** A local part of 64 and a domain of 255 characters. */
const MAX_EMAIL = 320;
const MAX_IPV6 = 45;

/** Units: 1 µs (measured). */
const READING = 8;

function isInstant(text: string, spend: Spend): boolean {
  spend(READING);
  return readInstant(text) !== undefined;
}

function isEmail(text: string, spend: Spend): boolean {
  const at = text.lastIndexOf("@");
  if (at < 1 || at > 64 || text.length > MAX_EMAIL || !LOCAL_PART.test(text.slice(0, at))) return false;
  const domain = text.slice(at + 1);
  const literal = /^\[(IPv6:)?(.*)\]$/i.exec(domain);
  if (literal) return literal[1] === undefined ? IPV4.test(literal[2] ?? "") : isIpv6(literal[2] ?? "");
  return isHostname(domain, spend);
}

function isIpv6(text: string): boolean {
  if (text.length > MAX_IPV6) return false;
  const [head = "", tail, more] = text.split("::");
  if (more !== undefined) return false;
  const count = groups(head, tail === undefined) + (tail === undefined ? 0 : groups(tail, true));
  return tail === undefined ? count === 8 : count < 8;
}

/** How many groups of sixteen bits a text has; not a number if it is something else. An IPv4 address is two, at the end. */
function groups(text: string, isEnd: boolean): number {
  if (text === "") return 0;
  const parts = text.split(":");
  const isMixed = isEnd && IPV4.test(parts.at(-1) ?? "");
  const hex = isMixed ? parts.slice(0, -1) : parts;
  return hex.every((part) => /^[\da-f]{1,4}$/i.test(part)) ? hex.length + (isMixed ? 2 : 0) : Number.NaN;
}

const BROKEN_ESCAPE = /%(?![\da-f]{2})/i;
const PATH = /^[\w.~!$&'()*+,;=:@%/-]*$/;
const QUERY = /^[\w.~!$&'()*+,;=:@%/?-]*$/;
const USER = /^[\w.~!$&'()*+,;=:%-]*$/;
const NAME = /^[\w.~!$&'()*+,;=%-]*$/;

function isUriReference(text: string): boolean {
  const { scheme, authority, path, query = "", fragment = "" } = partsOf(text);
  if (scheme !== undefined && !/^[a-z][a-z\d+.-]*$/i.test(scheme)) return false;
  if (scheme === undefined && /^[^/]*:/.test(path)) return false;
  if (authority !== undefined && !isAuthority(authority)) return false;
  return !BROKEN_ESCAPE.test(text) && PATH.test(path) && QUERY.test(query) && QUERY.test(fragment);
}

function isAuthority(authority: string): boolean {
  const at = authority.lastIndexOf("@");
  const host = authority.slice(at + 1).replace(/:\d*$/, "");
  if (at >= 0 && !USER.test(authority.slice(0, at))) return false;
  const literal = /^\[(.*)\]$/.exec(host)?.[1];
  if (literal === undefined) return NAME.test(host);
  return isIpv6(literal) || /^v[\da-f]+\.[\w.~!$&'()*+,;=:-]+$/i.test(literal);
}

const isUri = (text: string) => partsOf(text).scheme !== undefined && isUriReference(text);

const EXPRESSION =
  /^[+#./;?&=,!@|]?[\w%]+(?:\.[\w%]+)*(?::[1-9]\d{0,3}|\*)?(?:,[\w%]+(?:\.[\w%]+)*(?::[1-9]\d{0,3}|\*)?)*$/;

/** RFC 6570. */
function isUriTemplate(text: string): boolean {
  const parts = text.split(/\{([^{}]*)\}/);
  return parts.every((part, index) =>
    index % 2 === 0 ? !BROKEN_ESCAPE.test(part) && !/[\0-\x20"<>\\^`{|}\x7f]/.test(part) : EXPRESSION.test(part),
  );
}

function isRegex(text: string): boolean {
  try {
    new RegExp(text, "u");
    return true;
  } catch {
    return false;
  }
}

/** The caller has paid for the characters. */
export const FORMATS: Readonly<Record<string, (text: string, spend: Spend) => boolean>> = {
  "date-time": isInstant,
  date: (text, spend) => DATE.test(text) && isInstant(`${text}T00:00:00Z`, spend),
  time: (text, spend) => isInstant(`2000-01-01T${text}`, spend),
  duration: (text) => DURATION.test(text),
  uuid: (text) => UUID.test(text),
  email: isEmail,
  hostname: isHostname,
  ipv4: (text) => IPV4.test(text),
  ipv6: isIpv6,
  uri: isUri,
  url: isUri,
  "uri-reference": isUriReference,
  "uri-template": isUriTemplate,
  "json-pointer": (text) => isPointer(text),
  "relative-json-pointer": (text) => {
    const [, rest] = /^(?:0|[1-9]\d*)(?:#$|(?=\/|$))([\s\S]*)$/.exec(text) ?? [];
    return rest !== undefined && isPointer(rest);
  },
  regex: isRegex,
  byte: (text) => text.length % 4 === 0 && /^[A-Za-z\d+/]*={0,2}$/.test(text),
};

function isPointer(text: string): boolean {
  return (text === "" || text.startsWith("/")) && !/~(?![01])/.test(text);
}

export const NUMBER_FORMATS: Readonly<Record<string, (number: number) => boolean>> = {
  int32: (number) => Number.isInteger(number) && number >= -(2 ** 31) && number < 2 ** 31,
  int64: (number) => Number.isInteger(number),
};
