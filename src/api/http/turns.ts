// Requests take turns with everything else that computes on the event loop (law 14): before they are validated and handled, and
// while a large answer is encoded. The requests of one route are one party.
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { FairScheduler } from "../../work/fair-scheduler.js";
import { routeOf } from "./routes.js";

/** Characters that are encoded in one piece, by estimate: half a millisecond. A text is never cut. */
const PART = 64 * 1024;

export const partyOf = (request: FastifyRequest) => `${request.method} ${routeOf(request).url ?? ""}`;

export function takeTurns(app: FastifyInstance, scheduler: FairScheduler): void {
  const takeTurn = (request: FastifyRequest, _reply: unknown, done: () => void) => {
    if (scheduler.isFree) done();
    else void scheduler.nextTurn(partyOf(request)).then(done);
  };
  // What follows until the handler waits for something is computed in this turn.
  app.addHook("preValidation", takeTurn);
  // To check a large body, and to name what is ignored of it, takes a turn of its own.
  app.addHook("preHandler", takeTurn);
  const encoded = async (request: FastifyRequest, payload: unknown) => {
    let text = "";
    // What a large answer is made of may have been parsed in this turn.
    await scheduler.nextTurn(partyOf(request));
    for (const part of encodeLarge(payload)) {
      text += part;
      if (scheduler.spent) await scheduler.compute(partyOf(request), () => {});
    }
    return text;
  };
  app.addHook("preSerialization", (request, reply, payload, done) => {
    reply.serializer(String);
    if (isSmall(payload)) done(null, JSON.stringify(payload));
    else encoded(request, payload).then((text) => done(null, text), done);
  });
}

/** What JSON.stringify writes, in parts. */
export function* encodeParts(value: unknown): Generator<string> {
  if (isSmall(value)) yield JSON.stringify(value) ?? "null";
  else yield* encodeLarge(value);
}

function* encodeLarge(value: unknown): Generator<string> {
  // Whether it is small was a walk over the names of an object, which may be many. So is what follows.
  yield "";
  if (typeof value !== "object" || value === null) yield JSON.stringify(value) ?? "null";
  else if (Array.isArray(value)) yield* encodeItems(value);
  else yield* encodeMembers(value as Readonly<Record<string, unknown>>);
}

function* encodeItems(items: readonly unknown[]): Generator<string> {
  let comma = "";
  yield "[";
  for (const { group, isLarge } of groups(items, (item) => item)) {
    yield comma;
    if (isLarge) yield* encodeLarge(group[0]);
    else yield JSON.stringify(group).slice(1, -1);
    comma = ",";
  }
  yield "]";
}

function* encodeMembers(object: Readonly<Record<string, unknown>>): Generator<string> {
  let comma = "";
  yield "{";
  const names = Object.keys(object).filter((name) => object[name] !== undefined);
  for (const { group, isLarge } of groups(names, (name) => object[name])) {
    yield comma;
    if (isLarge) yield* encodeMember(group[0] ?? "", object);
    else yield JSON.stringify(Object.fromEntries(group.map((name) => [name, object[name]]))).slice(1, -1);
    comma = ",";
  }
  yield "}";
}

function* encodeMember(name: string, object: Readonly<Record<string, unknown>>): Generator<string> {
  yield `${JSON.stringify(name)}:`;
  yield* encodeLarge(object[name]);
}

interface Group<Item> {
  readonly group: readonly Item[];
  readonly isLarge: boolean;
}

/** Neighbours whose values are small together; one with a large value is alone. */
function* groups<Item>(items: readonly Item[], valueIn: (item: Item) => unknown): Generator<Group<Item>> {
  let group: Item[] = [];
  let room = PART;
  for (const item of items) {
    room = roomAfter(valueIn(item), room - 8);
    if (room < 0 && group.length > 0) {
      yield { group, isLarge: false };
      group = [];
      room = roomAfter(valueIn(item), PART);
    }
    group.push(item);
    if (room >= 0) continue;
    yield { group, isLarge: true };
    group = [];
    room = PART;
  }
  if (group.length > 0) yield { group, isLarge: false };
}

function isSmall(value: unknown): boolean {
  return roomAfter(value, PART) >= 0;
}

/** The room that is left after the value; negative: it does not fit. Stops there. */
function roomAfter(value: unknown, room: number): number {
  if (typeof value === "string") return room - value.length;
  if (typeof value !== "object" || value === null) return room - 6;
  return Array.isArray(value) ? roomAfterItems(value, room - 2) : roomAfterMembers(value, room - 2);
}

function roomAfterItems(items: readonly unknown[], room: number): number {
  let left = room;
  for (let nth = 0; nth < items.length && left >= 0; nth++) left = roomAfter(items[nth], left - 1);
  return left;
}

function roomAfterMembers(object: object, room: number): number {
  let left = room;
  for (const name in object) {
    if (left < 0) break;
    left = roomAfter((object as Record<string, unknown>)[name], left - name.length - 4);
  }
  return left;
}
