// Every limit of the dispatcher and its carriers, with its default. Times are in milliseconds.
import type { AcceptedOptions } from "./push/accepted.js";
import type { DestinationsOptions } from "./push/destinations.js";

export interface DispatchLimits {
  /** Calls that wait for credit on this node. A call above the limit is dropped, and the outbox poll brings it back. */
  readonly queued: number;
  /** Offers that back off because their run could not answer. At this number no further offer is made. */
  readonly backingOff: number;
  readonly offerBackoffMs: number;
  readonly offerBackoffMaxMs: number;
  /** A reservation without a `send` (its run was stepped on another node) returns its credit after this time. */
  readonly reservationMs: number;
  /** How long a dispatch that lost its stream waits for a claim before it goes to another worker (law 11). */
  readonly claimWaitMs: number;
  /** How long a claim of an unknown dispatch is remembered: its recovery may follow the claim. */
  readonly claimMemoryMs: number;
  /** Claims, and unrecorded answers, that are remembered. */
  readonly claims: number;
  readonly tickMs: number;
  /** A stream without a hello is closed after this time. */
  readonly helloMs: number;
  /** Advice to workers: send heartbeats no more often than this. */
  readonly heartbeatIntervalMs: number;
  /** Streams of this node, in all and of one worker. A further one is closed with RESOURCE_EXHAUSTED. */
  readonly streams: number;
  readonly streamsPerWorker: number;
  /** Streams from one address, those without a hello included. */
  readonly streamsPerAddress: number;
  /** Calls that one connection may have at a time, health checks included. HTTP/2 announces it, and a client that has as many waits. */
  readonly streamsPerConnection: number;
  /** The texts of one hello together. */
  readonly helloBytes: number;
  /** The most credit that one stream may ask for. */
  readonly maxInFlight: number;
  /**
   * Messages buffered for a worker that reads slowly. A stream with more, or one that is blocked for `stallMs`, is
   * closed.
   */
  readonly unread: number;
  readonly stallMs: number;
  /** A step's result, in bytes of JSON. */
  readonly outputBytes: number;
  /** Concurrent requests of this node, in all and to one host. */
  readonly requests: number;
  readonly requestsPerHost: number;
  /** Concurrent calls of HTTP workers by this node, in all and to one host. A worker that answers inline has its slot until then. */
  readonly httpCalls: number;
  readonly httpCallsPerHost: number;
  /** Messages of this node that the broker has not confirmed, in all and for one queue. */
  readonly messages: number;
  readonly messagesPerQueue: number;
  /** A larger message is not published: brokers close the channel over it. */
  readonly messageBytes: number;
  /** How long a hand-over is tried before the call waits for a worker again. At most half of the attempt's time. */
  readonly triedMs: number;
  readonly destinations: Omit<DestinationsOptions, "now">;
  readonly accepted: Pick<AcceptedOptions, "remembered">;
  /** Dispatches, and vouchers for them, that this node has at other nodes at once. */
  readonly relayed: number;
  /** A call with more bytes of JSON is not handed to another node: a bus message is at most 1 MiB. */
  readonly relayedBytes: number;
  /** How long an unused voucher keeps its credit. */
  readonly voucherMs: number;
  /**
   * Demand is gathered for `demandGatherMs` before it is sent, and sent again every `demandMs`. A host forgets it after
   * three such intervals.
   */
  readonly demandGatherMs: number;
  readonly demandMs: number;
  /** Actions in one node's demand, and vouchers that it is given for each of them at once. */
  readonly demands: number;
  readonly vouchers: number;
  /**
   * How long another node has to answer before it is asked again, and how often a dispatch is handed over, or another node is asked whether
   * it holds one, without an answer.
   */
  readonly handOverMs: number;
  readonly handOverTries: number;
  readonly rollCallMs: number;
  /** How long a node remembers the dispatches that it took over: a repeat that comes later finds them unknown. */
  readonly handedOverMemoryMs: number;
  /** How long other nodes have to say which workers they know, and how long their answer about what calls wait for is remembered. */
  readonly directoryMs: number;
  readonly directoryMemoryMs: number;
  /** Bytes of JSON in one node's answer: a bus message is at most 1 MiB. */
  readonly directoryBytes: number;
  /** How long after a change of nodes the dispatches of other nodes' runs are claimed at their owners. */
  readonly takeoverMs: number;
}

export const DEFAULT_LIMITS: DispatchLimits = {
  queued: 100_000,
  backingOff: 100,
  offerBackoffMs: 100,
  offerBackoffMaxMs: 5_000,
  reservationMs: 30_000,
  claimWaitMs: 2_000,
  claimMemoryMs: 10_000,
  claims: 100_000,
  tickMs: 250,
  helloMs: 5_000,
  heartbeatIntervalMs: 1_000,
  streams: 10_000,
  streamsPerWorker: 64,
  streamsPerAddress: 2_000,
  streamsPerConnection: 200,
  helloBytes: 1_048_576,
  maxInFlight: 10_000,
  unread: 1_000,
  stallMs: 30_000,
  outputBytes: 1_048_576,
  requests: 200,
  requestsPerHost: 50,
  httpCalls: 1_000,
  httpCallsPerHost: 100,
  messages: 1_000,
  messagesPerQueue: 250,
  messageBytes: 16 * 1_048_576,
  triedMs: 30_000,
  destinations: { backoffMs: 200, backoffMaxMs: 10_000, askedMaxMs: 60_000, reachedMs: 6_000, forgetMs: 600_000 },
  accepted: { remembered: 100_000 },
  relayed: 10_000,
  relayedBytes: 512 * 1_024,
  voucherMs: 5_000,
  demandGatherMs: 10,
  demandMs: 1_000,
  demands: 100,
  vouchers: 32,
  handOverMs: 1_000,
  handOverTries: 3,
  rollCallMs: 2_000,
  handedOverMemoryMs: 60_000,
  directoryMs: 500,
  directoryMemoryMs: 1_000,
  directoryBytes: 512 * 1_024,
  takeoverMs: 3_000,
};
