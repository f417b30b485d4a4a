// A service with one node: no primary, the node runs in the process of the service itself.
import { join } from "node:path";
import { openWordsFile, type WordsFile } from "../trial/last-words.js";
import type { NodeHandle } from "./node.js";
import type { PrimaryOptions } from "./primary.js";

export class OneNode {
  private node: NodeHandle | undefined;
  private words: WordsFile | undefined;
  /** The files of the certificate have changed while the node started, which may have read them before. */
  private certificateChanged = false;

  constructor(private readonly options: PrimaryOptions) {}

  get httpPort(): number {
    return this.node?.httpPort ?? 0;
  }

  get grpcPort(): number {
    return this.node?.grpcPort ?? 0;
  }

  async start(): Promise<void> {
    this.words = this.openWords();
    const { words: lastWords, before: diedOf } = this.words ?? {};
    // Loaded here, after the signals are listened to: it takes a second.
    const { startNode } = await import("./node.js");
    this.node = await startNode({ ...this.options, lastWords, diedOf });
    if (this.certificateChanged) this.node.replaceCertificate();
  }

  /** No primary sees this process die: the next process with the same data folder and port reads its last words. */
  private openWords(): WordsFile | undefined {
    const { config, log } = this.options;
    try {
      return openWordsFile(join(config.dataDir, `last-words-${config.httpPort}`));
    } catch (error) {
      log.warn({ err: error }, "SAGA_DATA_DIR cannot be written to: a run that ends this process is found more slowly");
      return undefined;
    }
  }

  /** Safe before the start has ended. Throws if it was not orderly. */
  async stop(): Promise<void> {
    await this.node?.stop();
    this.words?.remove();
  }

  /** Of what a primary has read again, this service replaces the certificate alone: the node and its streams stay. */
  async replaceNodes(): Promise<void> {
    const { config, log } = this.options;
    this.certificateChanged = true;
    if (config.tls !== undefined) this.node?.replaceCertificate();
    else log.warn("nodes not replaced: with SAGA_WORKERS=1 there is no primary; restart the service instead");
  }
}
