// Original file: src/dispatch/worker.proto


export interface HeartbeatInput {
  'dispatch_id'?: (string);
}

export interface Heartbeat {
  'dispatch_id': (string);
}
