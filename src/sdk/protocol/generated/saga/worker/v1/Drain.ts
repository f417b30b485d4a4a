// Original file: src/dispatch/worker.proto


export interface DrainInput {
}

export interface Drain {
}
