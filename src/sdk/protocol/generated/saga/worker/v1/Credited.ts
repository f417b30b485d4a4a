// Original file: src/dispatch/worker.proto


/**
 * Sent when no more steps than this are unanswered or set aside for this stream: from now on there are never more.
 */
export interface CreditedInput {
  /**
   * at most what was asked for
   */
  'max_in_flight'?: (number);
}

/**
 * Sent when no more steps than this are unanswered or set aside for this stream: from now on there are never more.
 */
export interface Credited {
  /**
   * at most what was asked for
   */
  'max_in_flight': (number);
}
