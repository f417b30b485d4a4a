// Original file: src/dispatch/worker.proto


export interface HelloAckInput {
  /**
   * the node this stream landed on
   */
  'node_id'?: (string);
  'heartbeat_interval_ms'?: (number);
  /**
   * nodes alive: a worker opens more channels until it has met them all
   */
  'node_count'?: (number);
  /**
   * this service reads batches
   */
  'batches'?: (boolean);
  /**
   * this service reads credit; without it, max_in_flight of the hello counts
   */
  'credit'?: (boolean);
}

export interface HelloAck {
  /**
   * the node this stream landed on
   */
  'node_id': (string);
  'heartbeat_interval_ms': (number);
  /**
   * nodes alive: a worker opens more channels until it has met them all
   */
  'node_count': (number);
  /**
   * this service reads batches
   */
  'batches': (boolean);
  /**
   * this service reads credit; without it, max_in_flight of the hello counts
   */
  'credit': (boolean);
}
