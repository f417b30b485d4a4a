// Times as clients write them: whether such a text is a time that exists and that Postgres reads. Values that are asked for in a
// definition are checked by machines/.

const RFC3339 = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-](0\d|1[0-5]):[0-5]\d)$/;

/** `Date` reads 31 February as a day in March, and offsets that Postgres refuses: from 16 hours on. */
export function isTime(text: string): boolean {
  if (!RFC3339.test(text) || Number.isNaN(Date.parse(text))) return false;
  const day = text.slice(0, 10);
  return !day.startsWith("0000") && new Date(`${day}T12:00:00Z`).toISOString().startsWith(day);
}
