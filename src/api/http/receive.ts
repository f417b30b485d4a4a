// The bytes of a request's body, as they arrive: counted, bounded, and given up if they stop. What they mean is body.ts.

import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { clearTimeout, setTimeout } from "../../ambient.js";
import { badRequest, bodyTooLarge, requestTimeout, type SagaError } from "../../errors.js";
import { countBody } from "./load-shedding.js";

export interface BodyBounds {
  readonly bytes: number;
  /** A body of which nothing arrives for this long is given up. */
  readonly stallMs: number;
  /** The refusal of what is over the bound. Absent: 413. */
  readonly excess?: () => SagaError;
}

/** Rejects with 408, 503, or the refusal of what is over the bound; the rest of such a body is discarded. */
export function receiveBody(request: FastifyRequest, body: Readable, bounds: BodyBounds): Promise<Buffer> {
  if (Number(request.headers["content-length"]) > bounds.bytes) return Promise.reject(tooLarge(bounds));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const end = (outcome: () => void) => {
      clearTimeout(stalled);
      body.off("data", receive).resume();
      outcome();
    };
    const fail = (error: unknown) => end(() => reject(error));
    // The client is gone, so this error is never sent.
    const close = () => fail(badRequest("the body ended early"));
    const stalled = setTimeout(() => fail(stalledAfter(bounds)), bounds.stallMs);
    const receive = (chunk: Buffer) => {
      stalled.refresh();
      length += chunk.length;
      chunks.push(chunk);
      try {
        if (length > bounds.bytes) throw tooLarge(bounds);
        countBody(request, chunk.length);
      } catch (error) {
        fail(error);
      }
    };
    body.on("data", receive);
    body.once("end", () => {
      body.off("close", close);
      end(() => resolve(Buffer.concat(chunks, length)));
    });
    body.once("error", fail);
    body.once("close", close);
  });
}

const tooLarge = ({ bytes, excess }: BodyBounds) =>
  excess?.() ?? bodyTooLarge(`the body is larger than ${bytes} bytes (SAGA_LIMIT_BODY_BYTES)`);

const stalledAfter = ({ stallMs }: BodyBounds) => requestTimeout(`nothing of the body has arrived for ${stallMs} ms`);
