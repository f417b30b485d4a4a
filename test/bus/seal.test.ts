// Sealed messages: what is opened, and everything that is not.
import { describe, expect, it } from "vitest";
import { Seal, type Sealed } from "../../src/bus/seal.js";

const [OLD, NEW, STRANGE] = ["old", "new", "strange"].map((name) => name.padEnd(32, "-")) as [string, string, string];
const CHANNEL = "saga:node:b";
const TEXT = '{"card":"4111 1111 1111 1111","note":"é😀"}';

function parties(secrets: { readonly from?: readonly string[]; readonly to?: readonly string[] } = {}) {
  const clock = { from: 1_000_000, to: 1_000_000 };
  const { from: mine = [NEW], to: theirs = [NEW] } = secrets;
  const from = new Seal({ secrets: mine, now: () => clock.from });
  const to = new Seal({ secrets: theirs, now: () => clock.to });
  return { clock, from, to };
}

/** As Redis carries it. */
const carried = <T extends Sealed>(message: T): T => JSON.parse(JSON.stringify(message));

describe("a sealed message", () => {
  it("is opened by the nodes that share the key, once, and shows nothing of its text", () => {
    const { from, to } = parties();
    for (const text of [TEXT, "", "x".repeat(1_048_576)]) {
      const message = carried(from.encrypt(CHANNEL, text));
      // Four digits alone would be in a megabyte of Base64 by chance.
      expect(JSON.stringify(message)).not.toContain("4111 1111");
      expect(message.body).not.toContain(Buffer.from(TEXT).toString("base64url").slice(0, 24));
      expect(to.decrypt(CHANNEL, message)).toBe(text);
      expect(to.decrypt(CHANNEL, message)).toBeUndefined();
    }
    const [one, two] = [from.encrypt(CHANNEL, TEXT), from.encrypt(CHANNEL, TEXT)];
    expect(one.body).not.toBe(two.body);
  });

  it("that is only signed is readable, and counts once", () => {
    const { from, to } = parties();
    const message = carried(from.sign(CHANNEL, "run"));
    expect(to.verify(CHANNEL, message, "run")).toBe(true);
    expect(to.verify(CHANNEL, message, "run")).toBe(false);
    expect(to.verify(CHANNEL, carried(from.sign(CHANNEL, "run")), "another run")).toBe(false);
  });

  it("is not opened where any part of it was changed, or at another channel", () => {
    const { from, to } = parties();
    const message = carried(from.encrypt(CHANNEL, TEXT));
    const [salt, count, time] = message.by.split(".");
    const other = from.encrypt(CHANNEL, TEXT);
    const wrong = [
      ...[`${salt}.${Number(count) + 1}.${time}`, `${salt}.${count}.${Number(time) + 1}`, "", "a.b.c", other.by].map(
        (by) => ({ by }),
      ),
      ...["", "AAAA", message.mac.slice(1), other.mac].map((mac) => ({ mac })),
      ...["", message.body.slice(0, -1), message.body.slice(4), `${message.body}AAAA`, other.body, "!"].map((body) => ({
        body,
      })),
    ];
    for (const part of wrong) expect([part, to.decrypt(CHANNEL, { ...message, ...part })]).toEqual([part, undefined]);
    expect(to.decrypt("saga:node:c", message)).toBeUndefined();
    expect(to.decrypt(CHANNEL, message)).toBe(TEXT);
  });

  it("is not opened with another key; of two keys, each opens, and the newest seals", () => {
    const opens = (from: readonly string[], to: readonly string[]) => {
      const { from: sender, to: receiver } = parties({ from, to });
      return receiver.decrypt(CHANNEL, carried(sender.encrypt(CHANNEL, TEXT))) === TEXT;
    };
    expect(opens([STRANGE], [NEW, OLD])).toBe(false);
    expect(opens([OLD], [NEW, OLD])).toBe(true);
    expect(opens([NEW, OLD], [NEW])).toBe(true);
    expect(opens([NEW, OLD], [OLD])).toBe(false);
  });

  it("is not opened more than 30 s later, or earlier, than it was made", () => {
    const { clock, from, to } = parties();
    const at = (sent: number, received: number) => {
      Object.assign(clock, { from: sent, to: received });
      return to.decrypt(CHANNEL, carried(from.encrypt(CHANNEL, TEXT))) !== undefined;
    };
    expect([at(0, 30_000), at(0, 30_001), at(30_000, 0), at(30_001, 0)]).toEqual([true, false, true, false]);
    expect(at(Number.NaN, 0)).toBe(false);
  });

  it("that was overtaken by a later one of its sender is lost; other senders are not concerned", () => {
    const { clock, from, to } = parties();
    const [first, second] = [from.encrypt(CHANNEL, "1"), from.encrypt(CHANNEL, "2")];
    const other = new Seal({ secrets: [NEW], now: () => clock.from });
    expect(to.decrypt(CHANNEL, second)).toBe("2");
    expect(to.decrypt(CHANNEL, other.encrypt(CHANNEL, "other"))).toBe("other");
    expect(to.decrypt(CHANNEL, first)).toBeUndefined();
  });
});
