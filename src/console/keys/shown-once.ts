// A key that is shown once. It is in a box, and in the field that shows it; both are emptied when the field goes.

/** React keeps what was given to it for a while: the box is emptied instead. */
export interface KeyBox {
  key: string;
}

/** What a text field is here. */
interface Field {
  value: string;
  select(): void;
}

/** Returns what empties the field and the box. */
export function showOnce(box: KeyBox, field: Field): () => void {
  field.value = box.key;
  field.select();
  return () => {
    box.key = "";
    field.value = "";
  };
}
