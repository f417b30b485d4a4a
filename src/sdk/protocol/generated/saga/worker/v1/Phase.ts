// Original file: src/dispatch/worker.proto

export const Phase = {
  PHASE_UNSPECIFIED: 'PHASE_UNSPECIFIED',
  FORWARD: 'FORWARD',
  COMPENSATION: 'COMPENSATION',
} as const;

export type PhaseInput =
  | 'PHASE_UNSPECIFIED'
  | 0
  | 'FORWARD'
  | 1
  | 'COMPENSATION'
  | 2

export type Phase = typeof Phase[keyof typeof Phase]
