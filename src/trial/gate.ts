// The gate before the decisions of a node: what a node has died of is tried first. A suspect that lives goes on, and one that is proven to end
// or hang the process is quarantined, or refused. Which suspects there are is suspects.ts.
import type { Answer, QuarantineProof, RunId } from "../../machines/index.js";
import { overloaded, Unreadable, unprocessable } from "../errors.js";
import type { Logger } from "../log.js";
import { canQuarantine, type Gate, type Judge, type Suspect, type SuspectRun } from "../run/judge.js";
import type { StartRequest } from "../run/ports.js";
import { suspects as rows } from "../store/engine/suspects.js";
import type { Suspects } from "./suspects.js";

export interface GateOptions {
  readonly suspects: Pick<Suspects, "has" | "lived">;
  readonly judge: Judge;
  readonly log: Logger;
}

export class TrialGate implements Gate {
  constructor(private readonly options: GateOptions) {}

  isSuspect(key: string): boolean {
    return this.options.suspects.has(key);
  }

  async command(
    suspect: SuspectRun,
    carryOut: () => Promise<Answer>,
    quarantine: (proof: QuarantineProof) => Promise<unknown>,
  ): Promise<Answer> {
    const { runId } = suspect;
    const proof = await this.proofAgainst(suspect, runId);
    if (proof) {
      await this.quarantine(runId, proof, quarantine);
      if (await this.proofAgainst(suspect, runId))
        throw unprocessable(
          `the command ${suspect.command.type} is refused: the process that carries it out ends or hangs`,
        );
    }
    return carryOut();
  }

  async start(start: StartRequest, key: string): Promise<void> {
    if (await this.proofAgainst({ start }, key))
      throw unprocessable("the start is refused: the process that carries it out ends or hangs");
  }

  private async proofAgainst(suspect: Suspect, key: string): Promise<QuarantineProof | undefined> {
    const verdict = await this.options.judge.verdictOn(suspect, { table: rows, key });
    if (verdict.kind === "guilty") return verdict.proof;
    if (verdict.kind === "unreadable") throw new Unreadable("it was found in its trial");
    if (verdict.kind === "undecided")
      throw overloaded("a node died of this a moment ago, and it could not be tried; send it again");
    this.options.suspects.lived(key);
    return undefined;
  }

  private async quarantine(
    runId: RunId,
    proof: QuarantineProof,
    quarantine: (proof: QuarantineProof) => Promise<unknown>,
  ): Promise<void> {
    if (await canQuarantine(this.options.judge, runId, proof, { table: rows, key: runId })) await quarantine(proof);
    else this.options.log.error({ runId }, "run cannot be quarantined, it is left alone");
  }
}
