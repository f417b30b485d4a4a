// What the service has, as it says in the page that it sent: for what no route of the API says.

/** Whether it shows runs in a Stately inspector. */
export const hasInspector = (): boolean => document.getElementById("console")?.dataset.inspector !== undefined;
