// The program in Deno, which may ask this machine and nothing else.
import { play } from "./play.mjs";

const [url, aside, id] = Deno.args;
console.log(JSON.stringify(await play(url, aside, id)));
