// The field in which a person says in a word that an act is meant which nothing undoes.

const WORD = "erase";

export const isMeant = (typed: string): boolean => typed.trim() === WORD;

export const MeantWord = ({ typed, onChange }: { typed: string; onChange: (typed: string) => void }) => (
  <label>
    Type “{WORD}” to go on
    <input value={typed} autoComplete="off" autoCapitalize="off" onChange={({ target }) => onChange(target.value)} />
  </label>
);
