//! Routes of the server and their handlers. `openapi.json` describes each route; a test compares the two.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use chained_gpc::{Secret, Shown};

use super::data_body::DataBody;
use super::guard::guard;
use super::json::{self, JSON_MAX};
use super::problem::Problem;
use super::request::{HttpRequest, life, wanted};
use super::shared::{App, Shared, strange};
use super::{OPENAPI, events, page, wait};
use crate::checking::checked;
use crate::machine::{Answer, FaultKind, Handle, Request, ResourceId, Token};

/// All routes: method, path, handler.
fn table() -> Vec<(&'static str, &'static str, MethodRouter<App>)> {
    vec![
        ("post", "/rendezvous", post(create)),
        ("get", "/rendezvous", get(by_handle)),
        ("get", "/rendezvous/{id}", get(properties)),
        ("delete", "/rendezvous/{id}", delete(destroy)),
        ("post", "/rendezvous/{id}/registrants", post(register)),
        ("get", "/rendezvous/{id}/registrants/{rank}", get(registrant)),
        ("delete", "/rendezvous/{id}/registrants/{rank}", delete(withdraw)),
        ("get", "/rendezvous/{id}/completion", get(wait::completion)),
        ("get", "/rendezvous/{id}/events", get(events::resource)),
        ("put", "/rendezvous/{id}/controllers/{unit}", put(control)),
        ("delete", "/rendezvous/{id}/controllers/{unit}", delete(release)),
        ("delete", "/jobs/{job}", delete(end_job)),
        ("get", "/openapi.json", get(openapi)),
        ("get", "/", get(page::page)),
        ("get", "/page.css", get(page::style)),
        ("get", "/page.js", get(page::script)),
        ("post", "/login", post(page::login)),
        ("get", "/events", get(page::show_page)),
    ]
}

pub(super) fn router(shared: App) -> Router {
    let router =
        table().into_iter().fold(Router::new(), |router, (_, path, answer)| router.route(path, answer));
    router
        .method_not_allowed_fallback(not_allowed)
        .fallback(not_found)
        .layer(from_fn_with_state(App::clone(&shared), guard))
        .with_state(shared)
}

async fn not_found(uri: Uri) -> Problem {
    let message = format!("there is nothing at {}; `/openapi.json` says what there is", Shown(uri.path()));
    Problem::new(StatusCode::NOT_FOUND, FaultKind::BadRequest, message)
}

/// The router adds the header `Allow`.
async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let message = format!("{} cannot be asked for with {}", Shown(uri.path()), Shown(method.as_str()));
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, FaultKind::BadRequest, message)
}

fn with_json(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn done(answer: Answer) -> Result<Response, Problem> {
    match answer {
        Answer::Done => Ok(StatusCode::NO_CONTENT.into_response()),
        _ => Err(strange()),
    }
}

async fn create(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    http_request.query(&[])?;
    let (text, _) = http_request.body(&shared, JSON_MAX).await?;
    let spec = json::spec(&text)?;
    let Answer::Created(id) = shared.create(spec).await? else { return Err(strange()) };
    let handle = Handle::new(&shared.url, id).map_err(|_| strange())?.to_string();
    let mut response =
        with_json(StatusCode::CREATED, json::text(&json::CreatedShape { handle, id: id.to_string() }));
    response.headers_mut().insert(header::LOCATION, location(&shared, id)?);
    Ok(response)
}

fn location(shared: &Shared, id: ResourceId) -> Result<HeaderValue, Problem> {
    HeaderValue::try_from(format!("{}/{id}", shared.path)).map_err(|_| strange())
}

/// A handle is a URL of the service: redirects it to the resource's path.
async fn by_handle(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    let id = http_request.parts.uri.query().unwrap_or_default();
    let id = id.parse().map_err(|error| Problem::bad(format!("{error}")))?;
    Ok((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, location(&shared, id)?)]).into_response())
}

async fn properties(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    http_request.query(&[])?;
    match shared.ask(Request::Properties(http_request.id()?)).await? {
        Answer::Properties(properties) => Ok(with_json(StatusCode::OK, json::properties(&properties))),
        _ => Err(strange()),
    }
}

async fn destroy(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    http_request.query(&[])?;
    done(shared.ask(Request::Destroy(http_request.id()?)).await?)
}

async fn register(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    let query = http_request.query(&["rank", "lease"])?;
    let (rank, life, resource) = (wanted(&query)?, life(&query)?, http_request.id()?);
    let token = match http_request.token()? {
        Some(token) => token,
        None => drawn()?,
    };
    let level = match http_request.is_long() {
        // Reject long data for an unknown resource before they are sent, and learn the level for their validation.
        true => match shared.ask(Request::Properties(resource)).await? {
            Answer::Properties(seen) => Some(seen.level),
            _ => return Err(strange()),
        },
        false => None,
    };
    let (data, reservation) = http_request.body(&shared, shared.limits.data).await?;
    let data = match level {
        Some(level) => checked(level, data).await,
        None => data.into(),
    };
    let register = Request::Register { resource, rank, token: token.clone(), data, life };
    let answer = shared.ask(register).await;
    drop(reservation);
    match answer? {
        Answer::Registered(stands) => Ok(with_json(StatusCode::CREATED, json::registered(stands, &token))),
        _ => Err(strange()),
    }
}

fn drawn() -> Result<Token, Problem> {
    let secret =
        Secret::random().map_err(|error| Problem::unavailable(format!("no token is drawn: {error}")))?;
    Token::new(&secret.to_text()).ok_or_else(strange)
}

async fn registrant(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    http_request.query(&[])?;
    let request = Request::Registrant { resource: http_request.id()?, rank: http_request.rank()? };
    let Answer::Data(data) = shared.ask(request).await? else { return Err(strange()) };
    let media = [(header::CONTENT_TYPE, "application/octet-stream")];
    let sent = DataBody::plain(shared.response_budget.send(data)?);
    Ok((media, Body::new(sent)).into_response())
}

async fn withdraw(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    http_request.query(&[])?;
    let (resource, rank, token) = (http_request.id()?, http_request.rank()?, http_request.own_token()?);
    done(shared.ask(Request::Withdraw { resource, rank, token }).await?)
}

async fn control(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    let query = http_request.query(&["lease"])?;
    let (resource, unit) = (http_request.id()?, http_request.unit()?);
    let (token, life) = (http_request.own_token()?, life(&query)?);
    let (text, _) = http_request.body(&shared, JSON_MAX).await?;
    let name = json::name(&text)?;
    done(shared.ask(Request::Control { resource, unit, name, token, life }).await?)
}

async fn release(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    let query = http_request.query(&["lost"])?;
    let (resource, unit, token) = (http_request.id()?, http_request.unit()?, http_request.own_token()?);
    let lost = query.get("lost").map(str::to_owned);
    done(shared.ask(Request::Release { resource, unit, token, lost }).await?)
}

async fn end_job(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    http_request.query(&[])?;
    let job =
        http_request.param("job").parse().map_err(|_| Problem::bad("a job is 32 hexadecimal digits"))?;
    match shared.ask(Request::EndJob(job)).await? {
        Answer::Ended(ended) => Ok(with_json(StatusCode::OK, format!("{{\"ended\":{ended}}}"))),
        _ => Err(strange()),
    }
}

async fn openapi() -> Response {
    with_json(StatusCode::OK, OPENAPI.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_file_has_every_route_and_no_other() {
        let file: Value = serde_json::from_str(OPENAPI).unwrap();
        let paths = file["paths"].as_object().unwrap().iter();
        let declared = paths.flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| (method.clone(), path.clone()))
        });
        let served = table().into_iter().map(|(method, path, _)| (method.to_owned(), path.to_owned()));
        assert_eq!(served.collect::<BTreeSet<_>>(), declared.collect::<BTreeSet<_>>());
    }
}
