// A failure in words: its code, its step, its message.
import { counted } from "../parts/plural.js";
import { Sentence } from "../parts/sentence.js";
import { type Names, nameIn } from "../story/words.js";

interface FailureProps {
  readonly failure: { readonly code: string; readonly message: string; readonly step_id?: string };
  readonly attempts?: number | undefined;
  /** Undefined: of another workflow. */
  readonly names?: Names;
}

export const FailureWords = ({ failure: { code, message, step_id: step }, attempts = 0, names }: FailureProps) => (
  <>
    <strong>{code}</strong>
    {step !== undefined && <> at {nameIn(names, step)}</>}: <Sentence text={message} />
    {attempts > 0 && <> ({counted(attempts, "attempt")})</>}
  </>
);
