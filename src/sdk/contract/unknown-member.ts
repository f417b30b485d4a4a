// What users give to the SDK is checked before anything is done with it. The compiler says most of it to a program in TypeScript; a program in
// plain JavaScript would run with a misspelt member that does not count.

/** Throws TypeError, which names the member that was meant, or all that there are. */
export function refuseUnknown(of: string, given: object, known: object): void {
  const unknown = Object.keys(given).find((member) => !Object.hasOwn(known, member));
  if (unknown === undefined) return;
  const plain = (member: string) => member.replaceAll("_", "").toLowerCase();
  const meant = Object.keys(known).find((member) => plain(member) === plain(unknown));
  const hint = meant ? `did you mean ${meant}?` : `it may have ${Object.keys(known).join(", ")}`;
  throw new TypeError(`${of} has an unknown member ${JSON.stringify(unknown)}: ${hint}`);
}
