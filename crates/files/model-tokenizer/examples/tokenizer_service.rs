//! A server that encodes and decodes text over TCP, with one thread per connection.
//!
//! `tokenizer_service FOLDER ADDRESS` loads the tokenizer of a model folder and answers requests at
//! an address such as 127.0.0.1:7878 until the program is stopped. Without arguments, the program
//! trains a small tokenizer, starts the server, and sends a few requests to it. Each request and
//! each answer is one line.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use model_tokenizer::ModelTokenizer;
use model_tokenizer::tokenizer::Tokenizer;

/// Number of bytes that a client may send over one connection.
const MAX_BYTES: u64 = 1 << 20;

fn answer(tokenizer: &dyn Tokenizer, request: &str) -> Result<String, Box<dyn Error>> {
    Ok(match request.split_once(' ') {
        Some(("encode", text)) => format!("{:?}", tokenizer.encode_with_offsets(text)?),
        Some(("decode", ids)) => {
            let ids: Result<Vec<u32>, _> = ids.split(' ').map(str::parse).collect();
            format!("{:?}", tokenizer.decode_lossy(&ids?)?)
        }
        Some(("id", token)) => format!("{:?}", tokenizer.id_of(token.as_bytes())),
        _ => return Err("the request must be `encode TEXT`, `decode IDS` or `id TOKEN`".into()),
    })
}

fn serve(tokenizer: &dyn Tokenizer, mut stream: TcpStream) -> io::Result<()> {
    let requests = BufReader::new(stream.try_clone()?.take(MAX_BYTES));
    for request in requests.lines() {
        let answer = answer(tokenizer, &request?);
        let answer = answer.unwrap_or_else(|error| format!("error: {error}"));
        writeln!(stream, "{answer}")?;
    }
    Ok(())
}

fn listen(tokenizer: Arc<dyn Tokenizer>, listener: TcpListener) -> io::Result<()> {
    for stream in listener.incoming() {
        let (tokenizer, stream) = (tokenizer.clone(), stream?);
        thread::spawn(move || serve(&*tokenizer, stream));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [folder, address] = &arguments[..] {
        let tokenizer =
            ModelTokenizer::from_folder(folder)?.ok_or("the folder has no tokenizer")?;
        return Ok(listen(Arc::new(tokenizer), TcpListener::bind(address)?)?);
    }
    let texts = ["<|user|>Does the bell ring?", "<|user|>The bells ring."];
    let tokenizer = ModelTokenizer::train_bpe_on(&texts, &["<|user|>"], 265)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    thread::spawn(move || listen(Arc::new(tokenizer), listener));
    stream.write_all(b"encode <|user|>the bell\nid <|user|>\ndecode 263 260\ndecode 9999\n")?;
    for answer in BufReader::new(stream).lines().take(4) {
        println!("{}", answer?);
    }
    Ok(())
}
