// The program in Node and in Bun.
import { play } from "./play.mjs";

const [, , url, aside, id] = process.argv;
console.log(JSON.stringify(await play(url, aside, id)));
