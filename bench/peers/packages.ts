// The packages of this folder, which are installed beside its own package.json and not with the product.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/** The folder of the peers, as seen from dist/bench/peers, where this file is compiled to. */
const HOME = new URL("../../../bench/peers/", import.meta.url);
const require = createRequire(new URL("package.json", HOME));

/** A program of `apps`, compiled by `npm start` of this folder. */
export function peerApp(name: string): string {
  return new URL(`dist/${name}.js`, HOME).pathname;
}

/** The version of a dependency. */
export function installed(name: string): string {
  return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, HOME), "utf8")).version;
}

/** The server itself, without the script around it. */
export function restateServer(): string {
  return require.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
}
