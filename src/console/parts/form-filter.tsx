// Fields of filters: what a person asks a list for. What they say is in the address; the page reads it from there.
import { useId, useState } from "react";
import { parseInstant } from "../../../machines/values/time.js";

export interface FilterFieldProps {
  readonly label: string;
  /** The value that the address has; empty if the list is not filtered by it. */
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Offered while typing. */
  readonly known?: readonly string[];
  readonly type?: "text" | "number";
  readonly hint?: string;
}

/** What is being written; the address may change beneath it. The field stays the same one, so that it keeps the focus. */
function useDraft(value: string) {
  const [draft, setDraft] = useState({ value, text: value });
  if (draft.value !== value) setDraft({ value, text: value });
  return [draft.text, (text: string) => setDraft({ value, text })] as const;
}

/** It counts when the person leaves it or presses Enter: an id that is half typed is refused by the service. */
export function FilterText({ label, value, onChange, known = [], type = "text", hint }: FilterFieldProps) {
  const list = useId();
  const [text, setText] = useDraft(value);
  const take = (next: string) => next !== value && onChange(next);
  const write = (next: string) => {
    setText(next);
    if (known.includes(next)) take(next);
  };
  return (
    <label>
      {label}
      <input
        type={type}
        value={text}
        placeholder={hint}
        list={known.length > 0 ? list : undefined}
        onChange={({ target }) => write(target.value)}
        onBlur={() => take(text.trim())}
        onKeyDown={({ key }) => key === "Enter" && take(text.trim())}
      />
      {known.length > 0 && (
        <datalist id={list}>
          {known.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
    </label>
  );
}

interface FilterChoiceProps extends FilterFieldProps {
  readonly options: readonly (readonly [value: string, words: string])[];
}

export const FilterChoice = ({ label, value, onChange, options }: FilterChoiceProps) => (
  <label>
    {label}
    <select value={value} onChange={({ target }) => onChange(target.value)}>
      {options.map(([value, words]) => (
        <option key={value} value={value}>
          {words}
        </option>
      ))}
    </select>
  </label>
);

/** Shows the time in the person's time zone; the address has it in UTC. */
export function FilterTime({ label, value, onChange }: FilterFieldProps) {
  const [text, setText] = useDraft(localTime(value));
  const take = () => text !== localTime(value) && onChange(utcTime(text));
  return (
    <label>
      {label}
      <input
        type="datetime-local"
        step={1}
        max="9999-12-31T23:59:59"
        value={text}
        onChange={({ target }) => setText(target.value)}
        onBlur={take}
        onKeyDown={({ key }) => key === "Enter" && take()}
      />
    </label>
  );
}

const utcTime = (local: string) => (local === "" ? "" : new Date(local).toISOString());

function localTime(utc: string): string {
  const at = parseInstant(utc);
  if (at === undefined) return "";
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
