// Original file: src/dispatch/worker.proto


export interface StepFailureInput {
  'dispatch_id'?: (string);
  'run_id'?: (string);
  'step_id'?: (string);
  'attempt'?: (number);
  'code'?: (string);
  'message'?: (string);
  /**
   * absent: true
   */
  'retryable'?: (boolean);
  /**
   * the effect may have happened: it is undone on rollback
   */
  'outcome_unknown'?: (boolean);
  '_retryable'?: "retryable";
}

export interface StepFailure {
  'dispatch_id': (string);
  'run_id': (string);
  'step_id': (string);
  'attempt': (number);
  'code': (string);
  'message': (string);
  /**
   * absent: true
   */
  'retryable'?: (boolean);
  /**
   * the effect may have happened: it is undone on rollback
   */
  'outcome_unknown': (boolean);
  '_retryable'?: "retryable";
}
