// Characters of text. Limits of names, keys, labels and headers count code points, through every door: a name of 200 emoji has 200
// characters. Sizes of JSON are in json.ts.

export function codePoints(text: string): number {
  let pairs = 0;
  for (let index = 0; index < text.length - 1; index++) {
    if (!isLead(text.charCodeAt(index)) || !isTrail(text.charCodeAt(index + 1))) continue;
    pairs++;
    index++;
  }
  return text.length - pairs;
}

/** Text that is far longer is not read. */
export function isLongerThan(text: string, characters: number): boolean {
  return text.length > characters && (text.length > 2 * characters || codePoints(text) > characters);
}

/** At most so many characters from the beginning. */
export function firstCharacters(text: string, characters: number): string {
  return text.length <= characters ? text : [...text.slice(0, 2 * characters)].slice(0, characters).join("");
}

const isLead = (unit: number) => unit >= 0xd800 && unit <= 0xdbff;
const isTrail = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;
