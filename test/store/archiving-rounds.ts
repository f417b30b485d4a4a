// A process that prunes with an archive until it is killed: round after round, over and over. It says when a round has ended. Arguments: the folder and the days.
import { ArchiveFolder } from "../../src/archive/writer.js";
import { createLogger } from "../../src/log.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";

const [folder = "", days = "1"] = process.argv.slice(2);
const log = createLogger({ logLevel: "silent" });
const open = (applicationName: string, max: number) =>
  openDatabase(process.env.DATABASE_URL ?? "", { max, applicationName, log });

const [own, reads] = [open("archiving-rounds", 3), open("archiving-rounds", 2)];
const archive = { folder: new ArchiveFolder(folder), reads: reads.sql };
const pruner = new Pruner(own.sql, log, { eventDays: 30, runDays: Number(days) }, { archive });

process.stdout.write("ready\n");
for (;;) {
  try {
    // False: the session of a process that was killed holds the lock still.
    if (await pruner.prune()) process.stdout.write("round\n");
  } catch (error) {
    // A session of a process that was killed may hold what this one waits for.
    process.stdout.write(`failed ${String(error).split("\n", 1)[0]}\n`);
  }
}
