export default function Page() {
  return <h1>rules index</h1>;
}
