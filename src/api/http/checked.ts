// The outcome of checking a part of a request.
import type { SagaError } from "../../errors.js";

/** In the form that Fastify takes: the value replaces what was sent. */
export type Checked = { readonly value: unknown } | { readonly error: SagaError };
