// Values of archived runs that are sealed: they are opened with the master keys of this command's environment and the data keys of the database, or shown
// as sealed. The files themselves stay as they are.
import { ENCRYPTION_KEYS, EncryptionKeysError, readMasterKeys, readSetting } from "../../config/index.js";
import { MARK_IN_TEXT, opened } from "../../store/sealed/envelope.js";
import { withDatabase } from "../database.js";
import { Failure } from "../exit.js";
import type { Terminal } from "../frame/terminal.js";

const SEALED = "[sealed]";

/** Throws Failure if the keys cannot be used. */
export async function openedValues<T extends object>(found: T, terminal: Pick<Terminal, "note">): Promise<T> {
  const text = JSON.stringify(found);
  if (!text.includes(MARK_IN_TEXT)) return found;
  const file = readSetting(ENCRYPTION_KEYS);
  if (file === undefined) {
    terminal.note(`saga: values of the run are sealed: set ${ENCRYPTION_KEYS}, and DATABASE_URL, to read them`);
    return opened(JSON.parse(text), () => SEALED) as T;
  }
  const { Keyring } = await import("../../store/sealed/keyring.js");
  return withDatabase(async (sql) => {
    const keyring = new Keyring({ masters: mastersOf(file) });
    await keyring.start(sql);
    return keyring.parse(text) as T;
  });
}

function mastersOf(file: string) {
  try {
    return readMasterKeys(file);
  } catch (error) {
    throw error instanceof EncryptionKeysError ? new Failure(error.message) : error;
  }
}
