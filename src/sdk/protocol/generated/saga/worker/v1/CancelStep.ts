// Original file: src/dispatch/worker.proto


export interface CancelStepInput {
  'dispatch_id'?: (string);
  'reason'?: (string);
}

export interface CancelStep {
  'dispatch_id': (string);
  'reason': (string);
}
