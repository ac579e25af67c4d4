//! Puts dispatches on the agenda, with the shadows that are called alongside the handlers.

use std::rc::Rc;

use super::shadow::beside_live;
use crate::agenda::{Agenda, Frame, Purpose, Work};
use crate::host::{Handlers, PluginKey};
use crate::plugins::Plugins;
use crate::shadows::Shadows;

/// Puts a dispatch on the agenda, unless no plugin handles the topic and nothing follows from its end.
pub(crate) fn push(agenda: &mut Agenda, plugins: &Plugins, frame: Frame) {
    let only_tells = matches!(frame.purpose, Purpose::Notify | Purpose::Introduce);
    let topic = frame.topic;
    if !only_tells || plugins.is_handled(topic) {
        let handlers = plugins.stack.handlers(topic).map(Rc::clone);
        let mut frame = Frame { handlers, ..frame };
        add_shadows(&plugins.shadows, &mut frame);
        agenda.push(Work::Frame(Box::new(frame)));
    }
}

/// Adds to a frame the shadows that are called alongside its handlers, if there are any.
pub(crate) fn add_shadows(shadows: &Shadows, frame: &mut Frame) {
    if !shadows.is_empty() {
        frame.shadow_calls =
            beside_live::begin(shadows, frame, frame.handlers.as_deref().unwrap_or_default());
    }
}

/// Puts a dispatch to these handlers and to the shadows on the agenda, if there are any.
pub(crate) fn push_with_shadows(
    agenda: &mut Agenda,
    plugins: &Plugins,
    frame: Frame,
    handlers: Handlers,
) {
    let mut frame = Frame { handlers: Some(handlers), ..frame };
    add_shadows(&plugins.shadows, &mut frame);
    if frame.shadow_calls.is_some() || frame.handlers.as_ref().is_some_and(|list| !list.is_empty())
    {
        agenda.push(Work::Frame(Box::new(frame)));
    }
}

/// Puts a dispatch to these handlers on the agenda, if there are any.
pub(crate) fn push_to(agenda: &mut Agenda, frame: Frame, handlers: Handlers) {
    if !handlers.is_empty() {
        let handlers = Some(handlers);
        agenda.push(Work::Frame(Box::new(Frame { handlers, ..frame })));
    }
}

/// Puts a dispatch to the handlers of one plugin on the agenda, if there are any.
pub(crate) fn push_to_plugin(agenda: &mut Agenda, plugins: &Plugins, key: PluginKey, frame: Frame) {
    let handlers = plugins.stack.handlers(frame.topic);
    let handlers = handlers.into_iter().flat_map(|list| list.iter());
    let handlers: Handlers = handlers.filter(|bound| bound.plugin() == key).cloned().collect();
    push_to(agenda, frame, handlers);
}
