// Original file: src/dispatch/worker.proto


export interface HelloInput {
  /**
   * unique per process
   */
  'worker_id'?: (string);
  /**
   * the registered service whose actions this worker executes
   */
  'service'?: (string);
  /**
   * "name" or "name@version"; empty: all actions of the service
   */
  'actions'?: (string)[];
  /**
   * credit of this stream: never more steps than this unanswered; 0 means 1
   */
  'max_in_flight'?: (number);
  /**
   * credential, where authentication is on
   */
  'token'?: (string);
  /**
   * dispatch ids this worker still holds or has answered without seeing recorded
   */
  'in_flight'?: (string)[];
  /**
   * this worker reads batches
   */
  'batches'?: (boolean);
  /**
   * this worker sends credit: until the first, this stream has none, and max_in_flight does not count
   */
  'credit'?: (boolean);
  /**
   * this worker answers over its streams only: it is sent no callback_token
   */
  'stream_answers'?: (boolean);
}

export interface Hello {
  /**
   * unique per process
   */
  'worker_id': (string);
  /**
   * the registered service whose actions this worker executes
   */
  'service': (string);
  /**
   * "name" or "name@version"; empty: all actions of the service
   */
  'actions': (string)[];
  /**
   * credit of this stream: never more steps than this unanswered; 0 means 1
   */
  'max_in_flight': (number);
  /**
   * credential, where authentication is on
   */
  'token': (string);
  /**
   * dispatch ids this worker still holds or has answered without seeing recorded
   */
  'in_flight': (string)[];
  /**
   * this worker reads batches
   */
  'batches': (boolean);
  /**
   * this worker sends credit: until the first, this stream has none, and max_in_flight does not count
   */
  'credit': (boolean);
  /**
   * this worker answers over its streams only: it is sent no callback_token
   */
  'stream_answers': (boolean);
}
