// The sites of the simulated hosts: an HTTP worker, a server of requests, and a receiver of webhooks. Each checks what it gets, and answers well, badly, late,
// in pieces or not at all.
import { Webhook } from "standardwebhooks";
import { keyOf } from "../../../src/egress/signature.js";
import { readSigning, WEBHOOK } from "../../../src/egress/signing.js";
import type { Cluster } from "../cluster.js";
import { turnOf } from "../trouble/faults.js";
import { type Conversation, type Request, response, SIGNING_SECRET } from "../world/hosts.js";
import type { Chance } from "../world/world.js";
import { type Message, messageOf, type PushWorker } from "./push-worker.js";

/** The service of all workers that open no stream. */
export const PUSHED = "depot";
export const HOSTS = { worker: "worker.example", server: "server.example", receiver: "receiver.example" } as const;

/** Of a request, from 0 to 1. */
export interface SiteFaults {
  /** It takes nothing now: 429, or 503. */
  readonly busy: number;
  readonly hung: number;
  /** The connection breaks before the answer, or within it. */
  readonly reset: number;
  readonly half: number;
  readonly brokenServer: number;
  /** What is no HTTP, or no answer. */
  readonly garbage: number;
  readonly overlong: number;
  readonly redirected: number;
  readonly lateAnswer: number;
  /** It has accepted a step, and never reports. */
  readonly forgotten: number;
}

export const NO_SITE_FAULTS: SiteFaults = {
  ...{ busy: 0, hung: 0, reset: 0, half: 0, brokenServer: 0, garbage: 0, overlong: 0, redirected: 0 },
  ...{ lateAnswer: 0, forgotten: 0 },
};

type Fault = keyof SiteFaults;

const LATE_MS = 12_000;
const JSON_TYPE = { "content-type": "application/json" };
/** Much more than any answer may have. */
const TOO_LONG = { "content-length": "999999999" };

export class Sites {
  faults: SiteFaults = NO_SITE_FAULTS;
  readonly seen: Record<string, number> = {};
  /** Bodies of webhooks by their ids, and those ids that were taken. */
  readonly webhooks = new Map<string, string>();
  readonly taken = new Set<string>();
  /** Keys of requests that were refused for good, and dispatches and keys that were sent elsewhere: a repeat gets the same answer. */
  private readonly refused = new Set<string>();
  private readonly sentAway = new Set<string>();
  private readonly signing = readSigning(SIGNING_SECRET);

  constructor(
    private readonly cluster: Cluster,
    private readonly chance: Chance,
    private readonly worker: PushWorker,
  ) {}

  /** An HTTP worker. */
  readonly work = (request: Request, talk: Conversation): void => {
    const step = messageOf(request.body);
    this.checkCall(request, step);
    const isUndo = step.phase === "COMPENSATION";
    // After what an undo cannot be tried again, it leaves its run to people.
    const fault = this.faultOf(isUndo ? UNDO_FAULTS : CALL_FAULTS);
    const { dispatch_id: id } = step;
    const isNew = !this.worker.knows(id);
    if (fault === "redirected" && isNew) this.sentAway.add(id);
    if (this.sentAway.has(id)) return talk.answer(response(302, "", { location: "/elsewhere" }));
    if (fault === "busy" && isNew) return this.busy(talk);
    // What it had begun may be done all the same, and reported as well.
    if (isFailure(fault)) {
      const drawn = this.chance();
      if (drawn < 0.7) this.worker.take(step, (answer) => void (drawn < 0.3 && this.worker.report(step, answer)));
      else this.cluster.ledger.note(step);
      if (fault !== "garbage" && fault !== "overlong") return this.failing(fault, talk);
      if (fault === "garbage" && (isUndo || this.chance() < 0.5)) return talk.answer("what is this?\r\n\r\n");
      // It has acted, as far as the service can tell.
      this.cluster.ledger.mayHaveHappened(step);
      return talk.answer(fault === "overlong" ? response(200, "", TOO_LONG) : response(200, '{"result": 7}'));
    }
    this.answerCall(step, talk, fault === "lateAnswer" ? this.chance() * LATE_MS : 0);
  };

  /** A server that honours idempotency keys. */
  readonly serve = ({ headers, path }: Request, talk: Conversation): void => {
    const { ledger } = this.cluster;
    const { "idempotency-key": key = "" } = headers;
    if (!/^[\da-f-]{36}/.test(key)) ledger.broken.push(`a request has the key ${key}`);
    if (this.refused.has(key)) return talk.answer(response(400, "no"));
    const fault = this.faultOf(REQUEST_FAULTS);
    if (fault === "busy") return this.busy(talk);
    if (fault === "redirected") this.sentAway.add(key);
    if (this.sentAway.has(key) && path !== "/moved") return talk.answer(response(307, "", { location: "/moved" }));
    if (fault === "forgotten" && !ledger.resultOf(key)) {
      this.refused.add(key);
      return talk.answer(response(400, "no"));
    }
    const step = { run_id: key.slice(0, 36), phase: "FORWARD", forward_idempotency_key: "" } as const;
    const act = () => ledger.perform({ ...step, idempotency_key: key }).toString();
    const isFailing = isFailure(fault) && fault !== "garbage" && fault !== "overlong";
    if (isFailing && this.chance() < 0.5) return this.failing(fault, talk);
    const receipt = act();
    if (isFailing) return this.failing(fault, talk);
    if (fault === "garbage") return talk.answer("what is this?\r\n\r\n");
    if (fault === "overlong") return talk.answer(response(200, "", TOO_LONG));
    const after = fault === "lateAnswer" ? this.chance() * LATE_MS : 0;
    if (this.chance() < 0.2) talk.say("HTTP/1.1 102 Processing\r\n\r\n");
    this.cluster.world.later(after, () => talk.answer(response(200, receipt, JSON_TYPE)), null);
  };

  readonly receive = ({ headers, body }: Request, talk: Conversation): void => {
    const { "webhook-id": id = "" } = headers;
    this.checkSignature(WEBHOOK, headers, body);
    const known = this.webhooks.get(id);
    // A run that the store has put back may come to another end.
    if (known !== undefined && known !== body && this.cluster.losses === 0)
      this.cluster.ledger.broken.push(`the webhook ${id} has two bodies`);
    this.webhooks.set(id, body);
    const fault = this.faultOf(REQUEST_FAULTS);
    if (fault === "busy") return this.busy(talk);
    if (fault === "redirected" || fault === "forgotten")
      return talk.answer(response(302, "", { location: "/elsewhere" }));
    if (fault === "garbage") return talk.answer("what is this?\r\n\r\n");
    if (isFailure(fault) && fault !== "overlong") return this.failing(fault, talk);
    this.taken.add(id);
    // Of an answer that is too long, the beginning is an answer.
    if (fault === "overlong") return talk.answer(response(200, "", TOO_LONG));
    const after = fault === "lateAnswer" ? this.chance() * LATE_MS : 0;
    this.cluster.world.later(after, () => talk.answer(response(204, "")), null);
  };

  /** In the response, or by a report: after the response, or before it. */
  private answerCall(step: Message, talk: Conversation, afterMs: number): void {
    const { world } = this.cluster;
    const drawn = this.chance();
    const isForgotten = this.chance() < this.faults.forgotten;
    if (drawn < 0.4)
      return this.worker.take(step, (answer) => {
        world.later(afterMs, () => talk.answer(response(200, JSON.stringify(answer), JSON_TYPE)), null);
      });
    const accept = () => talk.answer(response(drawn < 0.6 ? 200 : 202, drawn < 0.6 ? "{}" : ""));
    if (isForgotten) {
      this.count("forgotten");
      this.worker.take(step);
      return accept();
    }
    if (drawn < 0.8) accept();
    this.worker.take(step, (answer) => {
      world.later(afterMs, () => void this.worker.report(step, answer), null);
      if (drawn >= 0.8) world.later(afterMs, accept, null);
    });
  }

  private busy(talk: Conversation): void {
    const status = this.chance() < 0.5 ? 429 : 503;
    const seconds = Math.floor(this.chance() * 5);
    const { time } = this.cluster.world;
    const asked = [undefined, `${seconds}`, new Date(time + 2_000).toUTCString(), "soon"][
      Math.floor(this.chance() * 4)
    ];
    talk.answer(response(status, "later", asked === undefined ? {} : { "retry-after": asked }));
  }

  private failing(fault: Fault, talk: Conversation): void {
    if (fault === "reset") talk.reset();
    else if (fault === "half") talk.reset('HTTP/1.1 200 x\r\ncontent-length: 100\r\n\r\n{"result": {');
    else if (fault === "brokenServer") talk.answer(response(500, "<h1>an error</h1>"));
    // Otherwise it hangs.
  }

  private faultOf(of: readonly Fault[]): Fault | undefined {
    const fault = turnOf(this.chance(), this.faults, of);
    if (fault) this.count(fault);
    return fault;
  }

  private checkCall({ headers, path, body }: Request, step: Message): void {
    const { ledger } = this.cluster;
    const { dispatch_id: id, idempotency_key: key, service, action } = step;
    this.checkSignature(service, headers, body);
    if (headers["webhook-id"] !== id) ledger.broken.push(`the call of ${id} is signed as ${headers["webhook-id"]}`);
    if (headers["idempotency-key"] !== key) ledger.broken.push(`the call of ${id} has another key than its body`);
    if (path !== `/${action}`) ledger.broken.push(`the call of ${id} went to ${path}`);
  }

  private checkSignature(receiver: string, headers: Request["headers"], body: string): void {
    const key = keyOf(this.signing.of(receiver)[0] ?? "") ?? "";
    try {
      new Webhook(key, { format: "raw" }).verify(body, { ...headers });
    } catch (error) {
      this.cluster.ledger.broken.push(`${headers["webhook-id"]} is not signed: ${error}`);
    }
  }

  private count(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }
}

/** Nothing of the answer is good. Redirects, and what is forgotten, are none here. */
function isFailure(
  fault: Fault | undefined,
): fault is Exclude<Fault, "busy" | "redirected" | "lateAnswer" | "forgotten"> {
  return fault !== undefined && !["busy", "redirected", "lateAnswer", "forgotten"].includes(fault);
}

const UNDO_FAULTS: readonly Fault[] = ["busy", "hung", "reset", "half", "brokenServer", "garbage", "lateAnswer"];
const CALL_FAULTS: readonly Fault[] = [...UNDO_FAULTS, "overlong", "redirected"];
const REQUEST_FAULTS: readonly Fault[] = [...CALL_FAULTS, "forgotten"];
