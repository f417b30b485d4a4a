// The error of a run or a definition that this build cannot read, for example because a newer one has written it. It says nothing
// about the run: other nodes may be able to read it.
import { SagaError } from "../errors.js";

/** 503: the same request may succeed on another node. */
export class Unreadable extends SagaError {
  constructor(message: string) {
    super(503, "overloaded", message);
  }
}
