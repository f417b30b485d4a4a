// An HTTP worker: verifies each call, executes its step, and answers inline if that is quick enough, or reports later.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Alarm } from "../../timer.js";
import type { AnswerMessage } from "../answers.js";
import { CalledWorkerCore } from "../callback/core.js";
import { answerBody, type CalledStep, readMessage, readStep } from "../callback/message.js";
import { CALLED_MEMBERS, type CalledWorkerOptions } from "../callback/options.js";
import { type Handlers, type Handles, HandlingWorker } from "../handlers.js";
import { checkWorker } from "../options.js";
import { Verifier } from "./signature.js";

export interface HttpWorkerOptions extends CalledWorkerOptions {
  /** The URL of the plugin's route, as the orchestrator reaches it. */
  readonly address: string;
  /** The path of the route within the plugin's prefix. Default "/". */
  readonly path?: string;
  /**
   * The secret of this service, as `saga signing-secret <service>` prints it; several while it is being replaced. Absent: calls are not
   * verified.
   */
  readonly signingSecret?: string | readonly string[] | undefined;
  /** An answer that takes longer is reported later, in milliseconds. 0: always. Default 5,000. */
  readonly inlineMs?: number;
  /** Steps in progress at which further calls are answered 503, and the orchestrator tries again. Default 100. */
  readonly maxInFlight?: number;
  /** Bytes of a call. Default 16 MiB. */
  readonly bodyBytes?: number;
}

export interface HttpWorker extends Handles {
  /** Register it with Fastify before the server listens. */
  readonly plugin: (app: FastifyInstance) => Promise<void>;
  /** Registers the actions. Call it when the server listens; it retries, and rejects if the orchestrator refuses them or there are none. */
  start(): Promise<void>;
  /** Answers further calls with 503, finishes the steps in progress and reports their answers. Call it before the server closes. */
  stop(): Promise<void>;
}

const BODY_BYTES = 16 * 1_048_576;

const MEMBERS: Readonly<Record<keyof HttpWorkerOptions, true>> = {
  ...CALLED_MEMBERS,
  ...{ address: true, path: true, signingSecret: true, inlineMs: true, maxInFlight: true, bodyBytes: true },
};

/** Throws TypeError if an option is missing, malformed or unknown. */
export function createHttpWorker(options: HttpWorkerOptions): HttpWorker {
  checkWorker(options, MEMBERS);
  const { address } = options;
  if (!/^https?:/.test(address) || !URL.canParse(address)) throw new TypeError("address must be an http or https URL");
  return new PluginWorker(options);
}

class PluginWorker extends HandlingWorker implements HttpWorker {
  readonly plugin: HttpWorker["plugin"];
  private readonly calls: Calls;

  constructor(private readonly options: HttpWorkerOptions) {
    super(options.service);
    this.calls = new Calls(options, this.handlers);
    // A property, because Fastify calls it without the worker.
    this.plugin = async (app) => this.plugInto(app);
  }

  start(): Promise<void> {
    return this.calls.core.register({ transport: "http", address: this.options.address });
  }

  stop(): Promise<void> {
    return this.calls.core.stop();
  }

  private plugInto(app: FastifyInstance): void {
    const { path = "/", bodyBytes: bodyLimit = BODY_BYTES } = this.options;
    app.removeContentTypeParser("application/json");
    app.addContentTypeParser(
      "application/json",
      { parseAs: "buffer", bodyLimit },
      async (_: unknown, body: Buffer) => body,
    );
    app.post(path, { bodyLimit }, (request, reply) => this.calls.take(request, reply));
  }
}

class Calls {
  readonly core: CalledWorkerCore;
  private readonly verifier: Verifier;

  constructor(
    private readonly options: HttpWorkerOptions,
    handlers: Handlers,
  ) {
    this.core = new CalledWorkerCore(options, handlers);
    this.verifier = new Verifier(options.service, options.signingSecret);
  }

  async take(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { maxInFlight = 100 } = this.options;
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
    const { headers } = request;
    if (!this.verifier.isSigned(body, headers)) return refuse(reply, 401, "the signature is missing or wrong");
    if (this.core.stopped || this.core.busy >= maxInFlight) return refuse(reply, 503, "the worker is busy");
    let call: CalledStep;
    try {
      const message = readMessage(body);
      const stray = this.verifier.strayed(message, headers);
      if (stray !== undefined) return refuse(reply, 401, stray);
      call = readStep(message);
    } catch (error) {
      return refuse(reply, 400, error instanceof Error ? error.message : "the call cannot be read");
    }
    const answering = this.core.execute(call);
    const answer = answering && (await within(answering, this.options.inlineMs ?? 5_000));
    if (answering && !answer) void answering.then((late) => this.core.report(call, late));
    return answer ? this.inline(reply, call, answer) : reply.code(202).send();
  }

  /** A response that does not reach the service is reported. */
  private inline(reply: FastifyReply, call: CalledStep, answer: AnswerMessage): FastifyReply {
    reply.raw.once("close", () => {
      if (reply.raw.writableFinished) this.core.settled(call.step.dispatch_id);
      else void this.core.report(call, answer);
    });
    return reply.code(200).header("content-type", "application/json").send(answerBody(answer));
  }
}

const refuse = (reply: FastifyReply, status: number, message: string) => reply.code(status).send({ message });

/** Undefined: it takes longer. */
async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  if (ms <= 0) return undefined;
  let alarm: Alarm | undefined;
  const late = new Promise<undefined>((resolve) => {
    alarm = new Alarm(ms, () => resolve(undefined));
  });
  return Promise.race([work, late]).finally(() => alarm?.stop());
}
