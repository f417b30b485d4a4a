// The service of `saga dev` as a child: started on the ports that were chosen, stopped in order or in a hurry, with its embedded Postgres. It is the service as
// it is installed, with no other settings than a person could give it.
import { realpath } from "node:fs/promises";
import { join } from "node:path";
import type { Env } from "../../config/index.js";
import { Child, type End } from "../modules/child.js";
import { built, TETHERED } from "../modules/programs.js";
import type { Printer } from "./printer.js";

/** The old generation is as the service's own start has it. */
const ARGUMENTS = [...TETHERED, "--enable-source-maps", "--max-semi-space-size=32", built("main.js")];
/** The service gives itself 30 s, and its Postgres as long. */
const STOP_WITHIN_MS = 75_000;
/** From a second Ctrl-C to the kill. */
const HURRY_MS = 1_500;

export interface ServiceOptions {
  readonly folder: string;
  readonly env: Env;
  readonly printer: Printer;
  /** Of the embedded Postgres. Absent: there is none. */
  readonly dataDir?: string;
}

export class ServiceChild {
  readonly ended: Promise<End>;
  private readonly child: Child;

  constructor(private readonly options: ServiceOptions) {
    const { folder, env, printer } = options;
    const onLine = (line: string) => printer.line("service", line);
    this.child = new Child({ args: ARGUMENTS, env, cwd: folder, onLine });
    this.ended = this.child.ended;
  }

  /** True: in order. Complete on return, Postgres included. */
  async stop(hurry: AbortSignal): Promise<boolean> {
    const onHurry = () => {
      this.child.send("hurry");
      setTimeout(() => this.child.kill(), HURRY_MS).unref();
    };
    hurry.addEventListener("abort", onHurry, { once: true });
    if (hurry.aborted) onHurry();
    const { code } = await this.child.stop(STOP_WITHIN_MS);
    hurry.removeEventListener("abort", onHurry);
    await this.endDatabase();
    return code === 0;
  }

  /** A service that ends in order has stopped it. */
  private async endDatabase(): Promise<void> {
    const { dataDir } = this.options;
    if (dataDir === undefined) return;
    const home = await realpath(dataDir).catch(() => undefined);
    if (home === undefined) return;
    const { stopServerOf } = await import("../../store/embedded/leftover.js");
    await stopServerOf(join(home, "postgres"));
  }
}
