// Fields of filters: what a person asks a list for. What they say is in the address; the page reads it from there.
import { useId } from "react";

export interface FilterFieldProps {
  readonly label: string;
  /** As the address has it; empty if the list is not filtered by it. */
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Offered while typing. */
  readonly known?: readonly string[];
  readonly type?: "text" | "number";
  readonly hint?: string;
}

/** It counts when the person leaves it or presses Enter: an id that is half typed is refused by the service. */
export function FilterText({ label, value, onChange, known = [], type = "text", hint }: FilterFieldProps) {
  const list = useId();
  const take = (next: string) => next !== value && onChange(next);
  return (
    <label>
      {label}
      <input
        key={value}
        type={type}
        defaultValue={value}
        placeholder={hint}
        list={known.length > 0 ? list : undefined}
        onBlur={({ target }) => take(target.value.trim())}
        onChange={({ target }) => known.includes(target.value) && take(target.value)}
        onKeyDown={({ key, currentTarget }) => key === "Enter" && take(currentTarget.value.trim())}
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

export interface FilterChoiceProps extends FilterFieldProps {
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

/** In the time of the person; the address has it in UTC. */
export const FilterTime = ({ label, value, onChange }: FilterFieldProps) => (
  <label>
    {label}
    <input
      key={value}
      type="datetime-local"
      step={1}
      defaultValue={localTime(value)}
      onBlur={({ target }) => target.value !== localTime(value) && onChange(utcTime(target.value))}
      onKeyDown={({ key, currentTarget }) => key === "Enter" && onChange(utcTime(currentTarget.value))}
    />
  </label>
);

const utcTime = (local: string) => (local === "" ? "" : new Date(local).toISOString());

function localTime(utc: string): string {
  const at = Date.parse(utc);
  if (Number.isNaN(at)) return "";
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
