//! Checks the manifest under examples/kubernetes: it fits Kubernetes and the pods.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's helper panics like the test itself")]

use std::path::Path;
use std::process::Command;

use chained_gpc::bootstrap::{Resolve, Variables, rule_of};

/// Checks its contents with another YAML parser; prints the variables of the pod with index 2.
const FORM: &str = r#"
import sys
try:
    import yaml
except ImportError:
    sys.exit(77)
with open(sys.argv[1]) as file:
    service, job = yaml.safe_load_all(file)
assert [part["kind"] for part in (service, job)] == ["Service", "Job"]
assert [part["apiVersion"] for part in (service, job)] == ["v1", "batch/v1"]
spec, template = job["spec"], job["spec"]["template"]["spec"]
container, = template["containers"]
variables = {variable["name"]: variable["value"] for variable in container["env"]}
assert all(type(value) is str for value in variables.values()), variables
assert spec["completionMode"] == "Indexed"
assert spec["completions"] == spec["parallelism"] == int(variables["GPC_COUNT"])
# Names exist where a headless service selects the pods and they name it as their domain.
assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
assert template["subdomain"] == service["metadata"]["name"] == variables["GPC_SERVICE"]
port, = service["spec"]["ports"]
assert port["port"] == container["ports"][0]["containerPort"]
# The file of the secret is a key of the Secret where it is mounted, and others may not read it.
volume, = template["volumes"]
mount, = container["volumeMounts"]
assert volume["name"] == mount["name"] and volume["secret"]["secretName"] == "solver"
folder, key = variables["GPC_SECRET_FILE"].rsplit("/", 1)
assert mount["mountPath"] == folder and key == "secret"
assert volume["secret"]["defaultMode"] & 0o007 == 0, oct(volume["secret"]["defaultMode"])
assert template["securityContext"]["fsGroup"] == template["securityContext"]["runAsGroup"]
print("PORT", port["port"])
print("HOSTNAME", job["metadata"]["name"] + "-2")
print("JOB_COMPLETION_INDEX", 2)
for name, value in variables.items():
    print(name, value)
"#;

#[test]
fn the_manifest_of_a_job_gives_its_pods_what_they_need() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kubernetes/job.yaml");
    let Ok(output) = Command::new("python3").arg("-c").arg(FORM).arg(manifest).output() else {
        println!("skipped: needs Python 3");
        return;
    };
    if output.status.code() == Some(77) {
        println!("skipped: needs PyYAML (Debian: python3-yaml)");
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut variables: Variables =
        text.lines().map(|line| line.split_once(' ').unwrap()).map(|(a, b)| (a.into(), b.into())).collect();
    let port: u16 = variables.remove("PORT").unwrap().parse().unwrap();
    let rule = rule_of(&variables).unwrap().unwrap();
    assert_eq!((rule.launcher(), rule.id(), rule.count()), ("Kubernetes", 2, 4));
    assert_eq!(rule.host(3).as_deref(), Some("solver-3.solver"));
    let resolve = Resolve::by(|_| Ok(vec![[10, 0, 0, 7].into()]));
    let found = resolve.addresses(&rule, [3], std::time::Duration::from_secs(60)).unwrap();
    assert_eq!(found[0].1.to_string(), format!("10.0.0.7:{port}"));
}

/// The same variables, in processes of this machine.
#[test]
fn the_pods_of_the_example_know_each_other_and_print_once() {
    let tests = std::env::current_exe().unwrap();
    let example = tests.ancestors().nth(2).unwrap().join("examples/kubernetes");
    assert!(example.is_file(), "run `cargo build --example kubernetes` first");
    let output = Command::new(example).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected: String = (0..4).map(|id| format!("id {id} is in pod solver-{id}\n")).collect();
    assert_eq!(text(&output.stdout), expected);
}
