//! Seeds of the texts that people write: hosts, and lines and files of `gpc run`.

/// Returns the seeds of `hosts`.
pub fn host_seeds() -> Vec<Vec<u8>> {
    let of = |kind: u8, choice: u8, texts: &[&str]| -> Vec<Vec<u8>> {
        texts.iter().map(|text| [&[kind, choice], text.as_bytes()].concat()).collect()
    };
    [
        of(
            0,
            0,
            &["a", "b[01-03,7],c", "r[0-1]n[1-3]", "a[1-3,2-4]", "u@a,::1", "a[3-1]", "a[1", "-a", "a,,b"],
        ),
        of(1, 0, &["a:2,b[01-64]:3", "a:1,a:2", "[::1]:2,fe80::1", "a:0", "a:65536", "a:65537", "b_1+2:3"]),
        of(
            2,
            0,
            &[
                "a:2\nb # c\n",
                "a slots=2 max_slots=4\nb max-slots=3\n",
                "a\na\nb\na\n",
                "a slots=\n",
                "a b\n",
            ],
        ),
        of(3, 0, &["a[1-3,7],b\n2(x3),1,4", "a\n16(x1)", "a[1-2]\n2(x3)"]),
        of(3, 1, &["n1\nn1\nn2\n"]),
        of(3, 2, &["a 4 b 2 a 1", "a 4 b"]),
        of(3, 3, &["a\na\nb\n"]),
        of(3, 4, &["n1.x 4 all.q@n1.x UNDEFINED\nn2.x 1 q <NULL>\n", "b many q r\n"]),
    ]
    .concat()
}

/// Returns the seeds of `run_texts`.
pub fn run_seeds() -> Vec<Vec<u8>> {
    let of = |kind: u8, texts: &[&str]| -> Vec<Vec<u8>> {
        texts.iter().map(|text| [&[kind], text.as_bytes()].concat()).collect()
    };
    [
        of(
            0,
            &[
                "rank 0=a slot=0-3\nrank 1=b slots=4,6 # c\nrank 2=b\n",
                "rank 1=a\n",
                "rank 0=+n0\n",
                "rank 0=a slot=1:2\n",
            ],
        ),
        of(
            1,
            &["# two\n-n 1 -env A 1 ./ocean in\n-n 2 ./air 'a b'\n", "a \\\n b\n", "a \"\" b#c '", "a\n\nb"],
        ),
        of(
            2,
            &[
                "-n\n4\n-l\n./a.out",
                "-genv\nA\n1\n-n\n1\n-env\nA=2\np\n:\n-n\n2\nq",
                "--np=4\n-bind-to\ncore:2\np",
                "-map-by=machine\n-bind-to\nnuma\np",
                "-hosts\na:2,b\n-ppn\n2\n-genvnone\np",
                "-configfile\nf",
                "-timeout\n-1\n-s\nall\np",
                "-x\np",
                "-bindto\np",
            ],
        ),
        of(14, &["p\n-help", "-f\nhosts\n-genvlist\nB\np"]),
    ]
    .concat()
}
