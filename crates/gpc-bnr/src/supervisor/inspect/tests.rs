//! Tests of the errors for programs that cannot be started.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A directory with executable files.
fn folder_of(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// The error "there is no such program" was returned for a missing directory, and for a script whose interpreter was
/// missing.
#[test]
fn each_missing_part_is_named() {
    let files: [(&str, &[u8]); 6] = [
        ("script", b"#! /nowhere/interpreter -x\n"),
        ("relative", b"#!./script\n"),
        ("plain", b"echo a\n"),
        ("empty", b""),
        ("binary", b"a\0b\n"),
        ("odd", b"#!\n"),
    ];
    let place = folder_of(&files);
    let here = place.path().as_os_str().as_bytes();
    let of = |name: &str| file(name.as_bytes(), Path::new(name), Some(here)).map(|inspected| inspected.kind);
    let why = |name: &str| of(name).map_err(|error| (error.status, error.why));
    let path = place.path().display();
    assert_eq!(
        why("script"),
        Err((
            126,
            format!(
                "the script {path}/script needs the interpreter /nowhere/interpreter: No such file or directory"
            )
        ))
    );
    assert_eq!(why("relative"), Ok(Kind::Executable), "a relative interpreter counts from the folder");
    assert_eq!((why("plain"), why("empty")), (Ok(Kind::Plain), Ok(Kind::Plain)));
    assert_eq!((why("binary"), why("odd")), (Ok(Kind::Executable), Ok(Kind::Executable)));
    let missing = "there is no such program: No such file or directory";
    assert_eq!(why("./none"), Err((127, missing.into())));
    let folder_as_program = "the program cannot be executed: Permission denied";
    assert_eq!(file(b"/", Path::new("/"), None).unwrap_err().why, folder_as_program);
}

#[test]
fn a_folder_to_run_in_is_entered_or_named() {
    let place = folder_of(&[("plain", b"")]);
    let plain = place.path().join("plain");
    assert_eq!(folder(None), Ok(()));
    assert_eq!(folder(Some(place.path().as_os_str().as_bytes())), Ok(()));
    let error = folder(Some(b"/nowhere\x1b")).unwrap_err();
    assert_eq!((error.errno, error.status), (Errno::NOENT.raw_os_error(), 126));
    assert_eq!(error.why, "cannot enter the folder /nowhere\\u{1b}: No such file or directory");
    let error = folder(Some(plain.as_os_str().as_bytes())).unwrap_err();
    assert_eq!(error.errno, Errno::NOTDIR.raw_os_error());
}
