export default function Page() {
  return <h1>rules rule</h1>;
}
