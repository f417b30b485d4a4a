// One REST suite in three places: a single node, the node that owns the runs, and a node that does not. The answers must be right,
// and the same everywhere.
// @module-tag long
// @access both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hangUp } from "../api/client.js";
import { describeWithRedis } from "../harness/services.js";
import { PLACES, type Place } from "./rest/places.js";
import { publishAll, SCENARIOS } from "./rest/scenarios.js";
import { type Said, Talk } from "./rest/talk.js";

const [FIRST = "", ...OTHERS] = Object.keys(PLACES);
const kept = new Map<string, readonly Said[]>();
const said = (where: string, what: string) => kept.get(`${where}: ${what}`);

describeWithRedis("the REST suite", (redisUrl) => {
  describe.each(Object.entries(PLACES))("asked at %s", (where, open) => {
    let place: Place;
    beforeAll(async () => {
      place = await open(redisUrl);
      await publishAll(new Talk(place).aside);
    });
    afterAll(async () => {
      hangUp();
      await place?.close();
    });

    it.each(Object.entries(SCENARIOS))("%s", async (what, play) => {
      const talk = new Talk(place);
      await play(talk);
      kept.set(`${where}: ${what}`, talk.said);
    });

    it("covers every route about runs", async () => {
      const { paths } = (await (await fetch(`http://127.0.0.1:${place.httpPort}/openapi.json`)).json()) as {
        paths: Record<string, object>;
      };
      const routes = Object.entries(paths).flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path: path.replace("/api/v1", "") })),
      );
      const asked = Object.keys(SCENARIOS).flatMap((what) => (said(where, what) ?? []).map((one) => one.asked));
      const missed = routes.filter(
        ({ method, path }) => path.startsWith("/sagas") && !asked.some((one) => one.match(patternOf(method, path))),
      );
      expect(missed).toEqual([]);
    });
  });

  describe.each(OTHERS)("the answers of %s", (where) => {
    it.each(Object.keys(SCENARIOS))("%s", (what) => {
      expect(said(where, what)).toBeDefined();
      expect(said(where, what)).toEqual(said(FIRST, what));
    });
  });
});

function patternOf(method: string, path: string): RegExp {
  return new RegExp(`^${method} ${path.replace(/\{[^}]+\}/g, "[^/?]+")}(\\?.*)?$`);
}
