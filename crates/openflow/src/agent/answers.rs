//! Replies to multipart requests.

use warpswitch_rules::openflow::{FlowFilter, port};

use super::{Agent, Datapath};
use crate::{ErrorCode, METER_ALL, METER_MAX, MultipartReply, MultipartRequest, QUEUE_ALL};

impl Agent {
    pub(super) fn answer(
        &self,
        request: &MultipartRequest,
        now_ns: u64,
        datapath: &dyn Datapath,
    ) -> Result<MultipartReply, ErrorCode> {
        Ok(match *request {
            MultipartRequest::Description => {
                MultipartReply::Description(self.config.description.clone())
            }
            MultipartRequest::Flow(ref filter) => {
                check_table(filter, datapath)?;
                MultipartReply::Flow(datapath.flows(filter, now_ns))
            }
            MultipartRequest::Aggregate(ref filter) => {
                check_table(filter, datapath)?;
                MultipartReply::Aggregate(datapath.aggregate(filter, now_ns))
            }
            MultipartRequest::Table => MultipartReply::Table(datapath.table_stats()),
            MultipartRequest::TableFeatures => {
                MultipartReply::TableFeatures(datapath.table_features())
            }
            MultipartRequest::SetTableFeatures => return Err(ErrorCode::FEATURES_EPERM),
            MultipartRequest::PortDescription => MultipartReply::PortDescription(datapath.ports()),
            MultipartRequest::PortStats(number) => port_stats(number, now_ns, datapath)?,
            MultipartRequest::Queue { port, queue } => queues(port, queue, now_ns, datapath)?,
            MultipartRequest::Group(id) => {
                let mut groups = datapath.group_stats(now_ns);
                groups.retain(|group| id == port::GROUP_ALL || group.id == id);
                MultipartReply::Group(groups)
            }
            MultipartRequest::GroupDescription => {
                MultipartReply::GroupDescription(datapath.groups())
            }
            MultipartRequest::GroupFeatures => {
                MultipartReply::GroupFeatures(datapath.group_features())
            }
            MultipartRequest::Meter(id) => {
                let meters = datapath.meter_stats(now_ns);
                MultipartReply::Meter(select_meters(meters, id, |meter| meter.id)?)
            }
            MultipartRequest::MeterConfig(id) => {
                let meters = datapath.meters();
                MultipartReply::MeterConfig(select_meters(meters, id, |meter| meter.id)?)
            }
            MultipartRequest::MeterFeatures => {
                MultipartReply::MeterFeatures(datapath.meter_features())
            }
        })
    }
}

fn check_table(filter: &FlowFilter, datapath: &dyn Datapath) -> Result<(), ErrorCode> {
    let exists = filter.table == port::TABLE_ALL || filter.table < datapath.tables_len();
    if exists { Ok(()) } else { Err(ErrorCode::REQUEST_BAD_TABLE_ID) }
}

fn port_stats(
    number: u32,
    now_ns: u64,
    datapath: &dyn Datapath,
) -> Result<MultipartReply, ErrorCode> {
    let mut ports = datapath.port_stats(now_ns);
    if number != port::ANY {
        ports.retain(|port| port.number == number);
        if ports.is_empty() {
            return Err(ErrorCode::REQUEST_BAD_PORT);
        }
    }
    Ok(MultipartReply::PortStats(ports))
}

fn queues(
    number: u32,
    queue: u32,
    now_ns: u64,
    datapath: &dyn Datapath,
) -> Result<MultipartReply, ErrorCode> {
    let exists = datapath.ports().iter().any(|port| port.number == number);
    if number != port::ANY && !exists {
        return Err(ErrorCode::QUEUE_BAD_PORT);
    }
    let mut queues = datapath.queues(now_ns);
    queues.retain(|entry| number == port::ANY || entry.port == number);
    if queue != QUEUE_ALL {
        queues.retain(|entry| entry.queue == queue);
        if queues.is_empty() {
            return Err(ErrorCode::QUEUE_BAD_QUEUE);
        }
    }
    Ok(MultipartReply::Queue(queues))
}

fn select_meters<T>(
    mut meters: Vec<T>,
    id: u32,
    id_of: impl Fn(&T) -> u32,
) -> Result<Vec<T>, ErrorCode> {
    if id == METER_ALL {
        return Ok(meters);
    }
    if id == 0 || id > METER_MAX {
        return Err(ErrorCode::METER_INVALID);
    }
    meters.retain(|meter| id_of(meter) == id);
    if meters.is_empty() { Err(ErrorCode::METER_UNKNOWN) } else { Ok(meters) }
}
