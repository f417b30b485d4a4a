// Original file: src/dispatch/worker.proto


/**
 * A worker sends the next one when this one is answered.
 */
export interface CreditInput {
  /**
   * never more steps than this unanswered on this stream; 0: none
   */
  'max_in_flight'?: (number);
}

/**
 * A worker sends the next one when this one is answered.
 */
export interface Credit {
  /**
   * never more steps than this unanswered on this stream; 0: none
   */
  'max_in_flight': (number);
}
