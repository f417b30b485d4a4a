// Original file: src/dispatch/worker.proto


export interface StepResultInput {
  'dispatch_id'?: (string);
  'run_id'?: (string);
  'step_id'?: (string);
  'attempt'?: (number);
  /**
   * a JSON object; empty means {}
   */
  'result_json'?: (Buffer | Uint8Array | string);
}

export interface StepResult {
  'dispatch_id': (string);
  'run_id': (string);
  'step_id': (string);
  'attempt': (number);
  /**
   * a JSON object; empty means {}
   */
  'result_json': (Buffer);
}
