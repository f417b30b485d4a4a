// The program in workerd, in which workers at the edge run: a request of the test starts it.
import { play } from "./play.mjs";

export default {
  async fetch(request) {
    const query = new URL(request.url).searchParams;
    try {
      return Response.json(await play(query.get("url"), query.get("aside"), query.get("id")));
    } catch (error) {
      return new Response(`${error}\n${error?.stack}`, { status: 500 });
    }
  },
};
