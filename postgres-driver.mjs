// Mends the Postgres driver where the service is bundled and where tests load it. In postgres 3.4.9, a session that is lost keeps what it
// was about to write and the mark of a write that is on its way: the next statement on it, as of a transaction, throws where nothing can
// catch it and ends the process, or never leaves it. Reported as porsager/postgres#1154, #1208; to be removed with the release that mends it.

/** The file that this mends. */
export const DRIVER = /node_modules\/postgres\/src\/connection\.js$/;

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

/** The driver's text without the fault. Throws if the text is another one: the driver was updated, and this must be looked at. */
export function mendDriver(text) {
  return MENDED.reduce((mended, [fault, repair]) => {
    if (mended.split(fault).length !== 2) throw new Error(`postgres-driver.mjs does not fit this driver: ${fault}`);
    return mended.replace(fault, () => repair);
  }, text);
}
