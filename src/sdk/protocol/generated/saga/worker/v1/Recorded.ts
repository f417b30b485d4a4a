// Original file: src/dispatch/worker.proto


export interface RecordedInput {
  'dispatch_id'?: (string);
  'stale'?: (boolean);
}

export interface Recorded {
  'dispatch_id': (string);
  'stale': (boolean);
}
