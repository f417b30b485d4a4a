// A failure in words: its code, its step, its message.
import { counted } from "../parts/plural.js";
import { Sentence } from "../parts/sentence.js";
import { atStep, type Names, nameIn } from "../story/words.js";

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly step_id?: string;
  readonly phase?: string;
}

interface FailureProps {
  readonly failure: Failure;
  readonly attempts?: number | undefined;
  /** Undefined: of another workflow. */
  readonly names?: Names;
}

export const FailureWords = ({
  failure: { code, message, step_id: step, phase },
  attempts = 0,
  names,
}: FailureProps) => (
  <>
    <strong>{code}</strong>
    {step !== undefined && <> {atStep(nameIn(names, step), phase)}</>}: <Sentence text={message} />
    {attempts > 0 && <> ({counted(attempts, "attempt")})</>}
  </>
);
