export default function Page() {
  return <h1>workflows workflow</h1>;
}
