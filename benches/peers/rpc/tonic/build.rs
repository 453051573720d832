//! Generates the client and the server of the only method, without a protocol buffers file and its compiler.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let round = Method::builder()
        .name("round")
        .route_name("Round")
        .input_type("crate::Part")
        .output_type("crate::Part")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let service = Service::builder().name("Rounds").package("peers").method(round).build();
    Builder::new().compile(&[service]);
}
