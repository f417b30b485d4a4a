// Mends the Postgres driver where it is installed, before the service is bundled and tests load it. In postgres 3.4.9, a session that is lost
// keeps what it was about to write and the mark of a write that is on its way: the next statement on it, as of a transaction, throws where nothing
// can catch it and ends the process, or never leaves it. Reported as porsager/postgres#1154, #1208; to be removed with the release that mends it.
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

const DRIVER = join(import.meta.dirname, "node_modules/postgres/src/connection.js");

const MENDED = [
  ["    clearImmediate(nextWriteTimer)\n    if (socket) {\n", "    forget()\n    if (socket) {\n"],
  ["    incomings = null\n    clearImmediate(nextWriteTimer)\n", "    incomings = null\n    forget()\n"],
  [
    "  function nextWrite(fn) {\n",
    `  function forget() {
    clearImmediate(nextWriteTimer)
    chunk = nextWriteTimer = null
  }

  function nextWrite(fn) {
    if (!socket) {
      forget()
      error(Errors.connection('CONNECTION_CLOSED', options))
      return false
    }
`,
  ],
];

/** Does nothing to a mended driver. Throws if the driver is another one: it was updated, and this must be looked at. */
export async function mendDriver() {
  const text = await readFile(DRIVER, "utf8");
  if (MENDED.every(([, repair]) => text.includes(repair))) return;
  const mended = MENDED.reduce((part, [fault, repair]) => {
    if (part.split(fault).length !== 2) throw new Error(`postgres-driver.mjs does not fit this driver: ${fault}`);
    return part.replace(fault, () => repair);
  }, text);
  // Whoever reads it at this moment reads the whole of the one or of the other.
  const written = `${DRIVER}.${process.pid}`;
  await writeFile(written, mended);
  await rename(written, DRIVER);
}
