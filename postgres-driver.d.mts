export const DRIVER: RegExp;
export function mendDriver(text: string): string;
